#pragma once
// Targets that are places in an image.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "image_placement.hpp"

namespace tutti {

/// Moves such targets with their image. Immutable.
class PixelTargets {
  public:
    /// pixels: names of `targets`, x and y by turns. UsageError: an odd number, one that is no target or is
    /// named twice.
    PixelTargets(std::span<const std::string> targets, std::span<const std::string> pixels);

    /// values: all targets of a sample; what is NaN stays it.
    void move(std::span<float> values, const Placement& placement) const;
    /// Whether a place that was moved lies outside of the sample; one that is NaN does not.
    bool has_place_outside(std::span<const float> values, const Placement& placement) const;

  private:
    std::vector<std::size_t> x_, y_;
};

}  // namespace tutti
