#pragma once
// A part of an image, brought to one size.

#include <cstddef>
#include <cstdint>
#include <map>

#include "resample.hpp"
#include "tutti/base/config.hpp"
#include "tutti/base/dtype.hpp"
#include "tutti/base/random.hpp"

namespace tutti {

/// Where torchvision's center_crop begins: round((image − crop) / 2), halves to even; a smaller image gets
/// (crop − image) / 2 before it, rounded down.
std::int64_t centre(std::int64_t image, std::int64_t crop);

/// Uniform in 0, …, count − 1.
inline std::int64_t draw_below(const RandomStream& random, std::uint64_t address, std::int64_t count) {
    return static_cast<std::int64_t>(random.uniform(address) * static_cast<double>(count));
}

/// Immutable once it is made, hence safe to share between threads.
class ScaledCrop {
  public:
    /// Of images height × width × channels, u8 or f32, to spec.height × spec.width; no cut is higher than
    /// `highest`.
    ScaledCrop(const TransformSpec& spec, std::int64_t height, std::int64_t width, std::int64_t highest,
               std::int64_t channels, DType dtype);
    virtual ~ScaledCrop() = default;
    ScaledCrop(const ScaledCrop&) = delete;
    ScaledCrop& operator=(const ScaledCrop&) = delete;

    struct Cut {
        std::int64_t height, width, top, left;
        friend auto operator<=>(const Cut&, const Cut&) = default;
    };
    /// Drawn at `address` and up to 63 behind it.
    virtual Cut random_cut(const RandomStream& random, std::uint64_t address) const = 0;
    /// For evaluations.
    virtual Cut central_cut() const = 0;

    /// Bytes of memory that apply() needs, however they are aligned.
    std::size_t working_bytes() const;
    /// The cut of `image` (one of those above) at the wanted size: as it is where it has that, else bilinear
    /// (resample.hpp).
    void apply(const Cut& cut, const std::byte* image, std::byte* memory, std::byte* to) const;

  protected:
    /// What it takes to scale cuts of these sides is held ready; of others it is made each time.
    void keep(std::int64_t height, std::int64_t width);
    Cut in_the_centre(std::int64_t height, std::int64_t width) const {
        return {height, width, centre(height_, height), centre(width_, width)};
    }

    const TransformSpec spec_;
    const std::int64_t height_, width_;  ///< of the image

  private:
    std::size_t channels_, pixel_;  ///< pixel_: bytes
    DType dtype_;
    std::size_t working_;                         ///< numbers
    std::map<std::int64_t, Taps> down_, across_;  ///< by the side of the cut
};

}  // namespace tutti
