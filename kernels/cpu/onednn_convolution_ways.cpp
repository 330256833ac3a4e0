#include "onednn_convolution_ways.hpp"

#include <algorithm>
#include <limits>

#include "parallel.hpp"

namespace tutti {
namespace {

using Type = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

/// Measured with one and with two threads on AVX-512 (Zen 5), batch 64, direct against Winograd with its
/// reorders, in ms, forward / backward data / backward weight:
///    32→ 64, 14²:  1.8 /  1.9 /  1.8 against  1.2 /  1.6 /  1.9
///    64→ 64, 28²: 16.2 / 17.0 / 19.1 against 11.0 / 11.2 / 13.5
///   128→128, 14²: 14.7 / 15.2 / 16.2 against 10.5 / 10.9 / 12.7
///   256→256,  7²: 13.4 / 14.7 / 15.5 against  7.8 /  7.6 /  9.8
///   512→512,  4²: 34.6 / 21.2 / 19.8 against 13.7 / 12.9 / 11.0
bool winograd_pays(const Conv2dShape& s, ConvolutionPass pass) {
    const bool fits = s.kernel_h == 3 && s.kernel_w == 3 && s.stride_h == 1 && s.stride_w == 1 &&
                      s.padding_h <= 1 && s.padding_w <= 1 && s.groups == 1 && s.in % 16 == 0 &&
                      s.out % 16 == 0;
    const std::int64_t least = pass == ConvolutionPass::backward_weight ? 64 : 32;
    return fits && s.in >= least && s.out >= least;
}

/// In bf16 the direct products run at twice the rate: 256→256, 7² backward weight 10.5 ms against Winograd's
/// 9.8 in fp32, 512→512, 4² 14.8 against 11.0; elsewhere bf16 is as fast or faster.
bool winograd_pays_against_bf16(const Conv2dShape& s, ConvolutionPass pass) {
    return pass == ConvolutionPass::backward_weight && s.in >= 256 && s.out >= 256;
}

bool is_small(const Conv2dShape& s) {
    return s.out_height() * s.out_width() <= 16 && s.groups == 1 && s.in % 16 == 0 && s.out % 16 == 0;
}

bool is_winograd(const Conv2dShape& shape, ConvolutionPass pass, Type products) {
    return convolution_ways(shape, pass, products).front().algorithm == dnnl::algorithm::convolution_winograd;
}

std::int64_t weight_count(const Conv2dShape& s) {
    return s.kernel_h * s.kernel_w * s.in / s.groups * s.out;
}

/// Whether a thread's share of the images is more than the weights, each of which it would go through.
bool images_outweigh(const Conv2dShape& s, std::int64_t images) {
    return images * (s.height * s.width * s.in + s.out_height() * s.out_width() * s.out) > weight_count(s);
}

/// Slices for both gradients. Winograd has them for its cache. A direct weight gradient, which does not need
/// any, is worth one per thread where its sums are less than what it reads.
BatchDeal deal_slices(const Conv2dShape& s, Type products, std::int64_t batch, int threads) {
    const std::int64_t most = images_at_once(s, ConvolutionPass::backward_weight, products);
    const std::int64_t slices = batch / most + (batch % most != 0);
    if (threads == 1) return {slices, 1};
    const bool one_each = !is_winograd(s, ConvolutionPass::backward_weight, products) && batch >= threads &&
                          images_outweigh(s, batch / threads);
    if (!one_each && slices < threads) return {slices, 1};
    const std::int64_t rounds = (slices + threads - 1) / threads;
    return {std::min(rounds * threads, batch), threads};
}

}  // namespace

std::vector<ConvolutionWay> convolution_ways(const Conv2dShape& shape, ConvolutionPass pass, Type products) {
    std::vector<ConvolutionWay> ways;
    if (winograd_pays(shape, pass) && (products == Type::f32 || winograd_pays_against_bf16(shape, pass)))
        ways.push_back({dnnl::algorithm::convolution_winograd, Tag::any, Type::f32});
    if (pass == ConvolutionPass::forward && is_small(shape))
        ways.push_back({dnnl::algorithm::convolution_direct, Tag::nChw16c, products});
    ways.push_back({dnnl::algorithm::convolution_direct, Tag::nhwc, products});
    return ways;
}

/// Measured on a machine whose other core was busy, 64→64, 28², both gradients, ms for 64 images in calls of
/// 64 / 32 / 16 / 8: 42 / 41 / 30 / 24 on one thread, 31 / 31 / 23 / 20 on two; 128→128, 14²: 29 / 34 / 27 /
/// 29 and 23 / 22 / 20 / 19; 256→256, 7²: 20 / 28 / 31 / 41.
std::int64_t images_at_once(const Conv2dShape& shape, ConvolutionPass pass, Type products) {
    if (pass != ConvolutionPass::backward_weight || !is_winograd(shape, pass, products))
        return std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t cache_bytes = std::int64_t{8} << 20, tile_bytes = 36 * sizeof(float);
    const std::int64_t tiles = (shape.out_height() + 3) / 4 * ((shape.out_width() + 3) / 4);
    const std::int64_t image_bytes = tiles * (shape.in + shape.out) * tile_bytes;
    const std::int64_t weight_bytes = shape.in * shape.out * tile_bytes;
    return std::max<std::int64_t>(std::max(cache_bytes, 4 * weight_bytes) / image_bytes, 1);
}

BatchDeal deal(const Conv2dShape& shape, ConvolutionPass pass, Type products, std::int64_t batch,
               int threads) {
    if (pass == ConvolutionPass::backward_weight) return deal_slices(shape, products, batch, threads);
    const std::int64_t pixels = shape.out_height() * shape.out_width();
    // least_pixels: of a part, so that what a call does for the weights does not count.
    const auto parts_for = [&](int threads_in_part, std::int64_t least_pixels) {
        return parts_of(batch, pixels * weight_count(shape), (least_pixels + pixels - 1) / pixels,
                        threads_in_part);
    };
    const bool direct = !is_winograd(shape, pass, products);
    // 256→512 from 7², backward data and weight: 24 ms with threads apart, 15.7 together, 29 with one.
    const bool together =
        direct && pass == ConvolutionPass::backward_data && !images_outweigh(shape, batch / threads);
    if (threads > 1 && !together)
        for (std::int64_t parts = parts_for(1, direct ? 512 : 2048); parts >= threads; --parts)
            if (batch % parts == 0 && parts % threads == 0) return {parts, threads};
    return {parts_for(threads, 2048), 1};
}

}  // namespace tutti
