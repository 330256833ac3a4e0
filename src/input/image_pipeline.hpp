#pragma once
// The transforms of one image in memory.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "scaled_crop.hpp"
#include "tutti/base/config.hpp"
#include "tutti/base/dtype.hpp"
#include "tutti/base/random.hpp"
#include "tutti/base/shape.hpp"

namespace tutti {

/// Immutable, hence safe to share between threads.
class ImagePipeline {
  public:
    /// stored: [height, width, channels]. Throws UsageError, which begins with `name`, as transform_images().
    ImagePipeline(const std::string& name, const Shape& stored, DType dtype,
                  std::span<const TransformSpec> transforms);

    const Shape& output_shape() const { return shape_; }
    std::size_t crops() const { return crops_; }
    /// Bytes that apply() needs beside the image and the result.
    std::size_t spare_bytes() const { return between_crops() + working_; }

    /// `image` is overwritten. With a crop the result is in `out`, else in `image`. random: null for
    /// evaluation.
    void apply(const RandomStream* random, std::byte* image, std::byte* spare, std::byte* out) const;
    /// Where the flips that apply() makes with these numbers bring the pixel at (x, y). Without crops.
    void move_place(const RandomStream& random, float& x, float& y) const;

  private:
    struct Stage {
        TransformSpec spec;
        std::int64_t height, width;                ///< of what it is given
        std::unique_ptr<const ScaledCrop> scaled;  ///< null: another transform
    };
    void add_crop(const std::string& name, const TransformSpec& spec);
    std::size_t between_crops() const { return crops_ > 1 ? 2 * largest_ : 0; }
    void erase(const Stage& stage, const RandomStream& random, std::uint64_t address, std::byte* image) const;
    void crop(const Stage& stage, const RandomStream* random, std::uint64_t address, const std::byte* from,
              std::byte* to) const;

    std::vector<Stage> stages_;
    Shape shape_;
    DType dtype_;
    std::size_t pixel_;  ///< bytes
    std::size_t crops_ = 0, largest_ = 0, working_ = 0;
};

}  // namespace tutti
