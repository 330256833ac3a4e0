#include "image_pipeline.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "multi_scale_crop.hpp"
#include "random_resized_crop.hpp"
#include "tutti/base/error.hpp"
#include "tutti/input/transforms.hpp"

namespace tutti {
namespace {

using Kind = TransformSpec::Kind;

/// Numbers that one transform may draw for one image: 10 attempts of four, and whether at all.
constexpr std::uint64_t draws = 64;

bool is_crop(const TransformSpec& spec) {
    return spec.kind == Kind::random_crop || spec.kind == Kind::center_crop ||
           spec.kind == Kind::multi_scale_crop || spec.kind == Kind::random_resized_crop;
}

template <std::size_t size>
void reverse_pixels(std::byte* row, std::size_t width) {
    std::byte* last = row + (width - 1) * size;
    for (; row < last; row += size, last -= size) {
        std::byte one[size], other[size];
        std::memcpy(one, row, size);
        std::memcpy(other, last, size);
        std::memcpy(row, other, size);
        std::memcpy(last, one, size);
    }
}

void reverse_row(std::byte* row, std::size_t width, std::size_t pixel) {
    if (pixel == 1) return std::reverse(row, row + width);
    if (pixel == 3) return reverse_pixels<3>(row, width);
    if (pixel == 4) return reverse_pixels<4>(row, width);
    for (std::size_t x = 0; x < width / 2; ++x)
        std::swap_ranges(row + x * pixel, row + (x + 1) * pixel, row + (width - 1 - x) * pixel);
}

void flip_rows(std::byte* image, std::size_t height, std::size_t row) {
    for (std::size_t y = 0; y < height / 2; ++y)
        std::swap_ranges(image + y * row, image + (y + 1) * row, image + (height - 1 - y) * row);
}

[[noreturn]] void fail_size(const std::string& name, const TransformSpec& spec, const Shape& image) {
    const bool random = spec.kind == Kind::random_crop;
    throw UsageError("data.transforms: " + to_text(spec) + " does not fit into the images of " + name +
                         ", which are " + to_string(image) + " there",
                     random ? "use a smaller size or more padding" : "use a smaller size");
}

/// Null for what is no such crop.
std::unique_ptr<const ScaledCrop> make_scaled_crop(const TransformSpec& spec, const Shape& image,
                                                   DType dtype) {
    if (spec.kind == Kind::multi_scale_crop)
        return std::make_unique<MultiScaleCrop>(spec, image[0], image[1], image[2], dtype);
    if (spec.kind == Kind::random_resized_crop)
        return std::make_unique<RandomResizedCrop>(spec, image[0], image[1], image[2], dtype);
    return nullptr;
}

}  // namespace

ImagePipeline::ImagePipeline(const std::string& name, const Shape& stored, DType dtype,
                             std::span<const TransformSpec> transforms)
    : shape_(stored), dtype_(dtype) {
    if (stored.rank() != 3)
        throw UsageError("data.transforms: " + name + " has samples of shape " + to_string(stored) +
                             ", but transforms are for images [height, width, channels]",
                         "remove data.transforms, or pack images");
    pixel_ = static_cast<std::size_t>(stored[2]) * size_of(dtype);
    for (const TransformSpec& spec : transforms) {
        stages_.push_back({spec, shape_[0], shape_[1], make_scaled_crop(spec, shape_, dtype)});
        if (is_crop(spec)) add_crop(name, spec);
    }
}

void ImagePipeline::add_crop(const std::string& name, const TransformSpec& spec) {
    if (const auto& scaled = stages_.back().scaled) {
        working_ = std::max(working_, scaled->working_bytes());
    } else if (spec.height > shape_[0] + 2 * spec.padding || spec.width > shape_[1] + 2 * spec.padding) {
        fail_size(name, spec, shape_);
    }
    shape_ = {spec.height, spec.width, shape_[2]};
    ++crops_;
    largest_ = std::max(largest_, static_cast<std::size_t>(spec.height * spec.width) * pixel_);
}

void ImagePipeline::apply(const RandomStream* random, std::byte* image, std::byte* spare,
                          std::byte* out) const {
    std::size_t cropped = 0;
    std::uint64_t address = 0;
    for (const Stage& stage : stages_) {
        const auto height = static_cast<std::size_t>(stage.height),
                   width = static_cast<std::size_t>(stage.width);
        if (is_crop(stage.spec)) {
            std::byte* const to = ++cropped == crops_ ? out : spare + cropped % 2 * largest_;
            if (const auto& scaled = stage.scaled) {
                const auto cut = random ? scaled->random_cut(*random, address) : scaled->central_cut();
                scaled->apply(cut, image, spare + between_crops(), to);
            } else {
                crop(stage, random, address, image, to);
            }
            image = to;
        } else if (random && random->uniform(address) < stage.spec.p) {
            if (stage.spec.kind == Kind::horizontal_flip)
                for (std::size_t y = 0; y < height; ++y)
                    reverse_row(image + y * width * pixel_, width, pixel_);
            else if (stage.spec.kind == Kind::vertical_flip)
                flip_rows(image, height, width * pixel_);
            else
                erase(stage, *random, address + 1, image);
        }
        address += draws;
    }
}

void ImagePipeline::move_place(const RandomStream& random, float& x, float& y) const {
    assert(crops_ == 0);
    std::uint64_t address = 0;
    for (const Stage& stage : stages_) {
        if (is_flip(stage.spec) && random.uniform(address) < stage.spec.p) {
            const bool sideways = stage.spec.kind == Kind::horizontal_flip;
            float& moved = sideways ? x : y;
            moved = static_cast<float>((sideways ? stage.width : stage.height) - 1) - moved;
        }
        address += draws;
    }
}

void ImagePipeline::crop(const Stage& stage, const RandomStream* random, std::uint64_t address,
                         const std::byte* from, std::byte* to) const {
    const TransformSpec& spec = stage.spec;
    std::int64_t top = centre(stage.height, spec.height), left = centre(stage.width, spec.width);
    if (random && spec.kind == Kind::random_crop) {
        top = draw_below(*random, address, stage.height + 2 * spec.padding - spec.height + 1) - spec.padding;
        left =
            draw_below(*random, address + 1, stage.width + 2 * spec.padding - spec.width + 1) - spec.padding;
    }
    // Of a row of the result: zeros, pixels of the image, zeros.
    const std::int64_t first = std::clamp<std::int64_t>(-left, 0, spec.width);
    const std::int64_t last = std::clamp<std::int64_t>(stage.width - left, first, spec.width);
    const auto bytes = [this](std::int64_t pixels) { return static_cast<std::size_t>(pixels) * pixel_; };
    for (std::int64_t y = 0; y < spec.height; ++y, to += bytes(spec.width)) {
        const std::int64_t row = y + top;
        if (row < 0 || row >= stage.height || first == last) {
            std::memset(to, 0, bytes(spec.width));
            continue;
        }
        std::memset(to, 0, bytes(first));
        std::memcpy(to + bytes(first), from + bytes(row * stage.width + left + first), bytes(last - first));
        std::memset(to + bytes(last), 0, bytes(spec.width - last));
    }
}

/// torchvision.transforms.RandomErasing.get_params (Z. Zhong et al., "Random Erasing Data Augmentation",
/// 2017): up to ten rectangles are drawn, until one is smaller than the image.
void ImagePipeline::erase(const Stage& stage, const RandomStream& random, std::uint64_t address,
                          std::byte* image) const {
    const TransformSpec& spec = stage.spec;
    const auto between = [&](double low, double high) {
        return low + (high - low) * random.uniform(address++);
    };
    for (int attempt = 0; attempt < 10; ++attempt) {
        const double area =
            static_cast<double>(stage.height * stage.width) * between(spec.scale[0], spec.scale[1]);
        const double ratio = std::exp(between(std::log(spec.ratio[0]), std::log(spec.ratio[1])));
        const double high = std::round(std::sqrt(area * ratio)), wide = std::round(std::sqrt(area / ratio));
        if (!(high < static_cast<double>(stage.height) && wide < static_cast<double>(stage.width))) continue;
        const auto h = static_cast<std::int64_t>(high), w = static_cast<std::int64_t>(wide);
        const std::int64_t top = draw_below(random, address, stage.height - h + 1);
        const std::int64_t left = draw_below(random, address + 1, stage.width - w + 1);
        const std::int64_t channels = shape_[2];
        for (std::int64_t y = top; y < top + h; ++y) {
            std::byte* const row = image + static_cast<std::size_t>(y * stage.width + left) * pixel_;
            if (dtype_ == DType::f32)
                std::fill_n(reinterpret_cast<float*>(row), w * channels, static_cast<float>(spec.value));
            else
                std::fill_n(row, w * channels, static_cast<std::byte>(std::lround(255 * spec.value)));
        }
        return;
    }
}

}  // namespace tutti
