#include "scaled_crop.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

namespace tutti {

std::int64_t centre(std::int64_t image, std::int64_t crop) {
    const std::int64_t rest = image - crop;
    if (rest < 0) return -(-rest / 2);
    const std::int64_t half = rest / 2;
    return half + (rest % 2 == 1 && half % 2 == 1 ? 1 : 0);
}

ScaledCrop::ScaledCrop(const TransformSpec& spec, std::int64_t height, std::int64_t width,
                       std::int64_t channels, DType dtype)
    : spec_(spec),
      height_(height),
      width_(width),
      channels_(static_cast<std::size_t>(channels)),
      pixel_(channels_ * size_of(dtype)),
      dtype_(dtype) {}

void ScaledCrop::add_height(std::int64_t height) {
    down_.try_emplace(height, ScaledLine{height, spec_.height, 0, spec_.height});
}

void ScaledCrop::add_width(std::int64_t width) {
    across_.try_emplace(width, ScaledLine{width, spec_.width, 0, spec_.width});
}

std::size_t ScaledCrop::working_bytes() const {
    // The widest of either: they are independent.
    const auto most = [this](const Taps& down) {
        return resample_memory(down, across_.begin()->second, channels_);
    };
    std::size_t numbers = 0;
    for (const auto& [height, down] : down_) numbers = std::max(numbers, most(down));
    return numbers * sizeof(float) + alignof(float) - 1;
}

void ScaledCrop::apply(const Cut& cut, const std::byte* image, std::byte* memory, std::byte* to) const {
    const std::byte* const from = image + static_cast<std::size_t>(cut.top * width_ + cut.left) * pixel_;
    const auto image_width = static_cast<std::size_t>(width_);
    if (cut.height == spec_.height && cut.width == spec_.width) {
        const std::size_t row = static_cast<std::size_t>(cut.width) * pixel_;
        for (std::size_t y = 0; y < static_cast<std::size_t>(cut.height); ++y)
            std::memcpy(to + y * row, from + y * image_width * pixel_, row);
        return;
    }
    void* working = memory;
    std::size_t space = working_bytes();
    std::align(alignof(float), sizeof(float), working, space);
    const auto scale = [&](const auto* source, auto* result) {
        resample(source, image_width * channels_, channels_, down_.at(cut.height), across_.at(cut.width),
                 static_cast<float*>(working), result);
    };
    if (dtype_ == DType::f32)
        scale(reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to));
    else
        scale(from, to);
}

}  // namespace tutti
