#include "scaled_crop.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

namespace tutti {

std::int64_t centre(std::int64_t image, std::int64_t crop) {
    const std::int64_t rest = image - crop;
    if (rest < 0) return -(-rest / 2);
    const std::int64_t half = rest / 2;
    return half + (rest % 2 == 1 && half % 2 == 1 ? 1 : 0);
}

ScaledCrop::ScaledCrop(const TransformSpec& spec, std::int64_t height, std::int64_t width,
                       std::int64_t highest, std::int64_t channels, DType dtype)
    : spec_(spec),
      height_(height),
      width_(width),
      channels_(static_cast<std::size_t>(channels)),
      pixel_(channels_ * size_of(dtype)),
      dtype_(dtype),
      working_(Taps::most(highest, spec.height) * static_cast<std::size_t>(spec.width) * channels_) {}

void ScaledCrop::keep(std::int64_t height, std::int64_t width) {
    down_.try_emplace(height, ScaledLine{height, spec_.height, 0, spec_.height});
    across_.try_emplace(width, ScaledLine{width, spec_.width, 0, spec_.width});
}

std::size_t ScaledCrop::working_bytes() const {
    return working_ * sizeof(float) + alignof(float) - 1;
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
    std::optional<Taps> made_down, made_across;
    const auto taps = [](const auto& kept, std::int64_t side, std::int64_t wanted,
                         std::optional<Taps>& made) -> const Taps& {
        const auto found = kept.find(side);
        return found != kept.end() ? found->second : made.emplace(ScaledLine{side, wanted, 0, wanted});
    };
    const Taps& down = taps(down_, cut.height, spec_.height, made_down);
    const Taps& across = taps(across_, cut.width, spec_.width, made_across);
    const auto scale = [&](const auto* source, auto* result) {
        resample(source, image_width * channels_, channels_, down, across, static_cast<float*>(working),
                 result);
    };
    if (dtype_ == DType::f32)
        scale(reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to));
    else
        scale(from, to);
}

}  // namespace tutti
