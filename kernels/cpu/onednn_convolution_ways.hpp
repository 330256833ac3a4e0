#pragma once
// Which of oneDNN's convolutions computes a pass of a layer.

#include <dnnl.hpp>

#include <vector>

#include "tutti/device/ops.hpp"

namespace tutti {

enum class ConvolutionPass { forward, backward_data, backward_weight };

/// How oneDNN is asked for a convolution: activations that are not NHWC are brought into that layout before,
/// and back after.
struct ConvolutionWay {
    dnnl::algorithm algorithm = dnnl::algorithm::convolution_direct;
    dnnl::memory::format_tag activations = dnnl::memory::format_tag::nhwc;
    /// What the inputs of the products are rounded to.
    dnnl::memory::data_type products = dnnl::memory::data_type::f32;

    bool operator==(const ConvolutionWay&) const = default;
};

/// The ways to try, best first; the last, direct on NHWC, is always there. A pure function of the shape, not
/// of measurements in the run, so that every rank and every resume computes the same bits.
///
/// 3×3 windows with stride 1 go to Winograd's F(4×4, 3×3) (A. Lavin, S. Gray, "Fast Algorithms for
/// Convolutional Neural Networks", 2015), in fp32: a quarter of the multiplications, with rounding errors of
/// about twice the direct sum's. Images of up to 4×4 pixels are too small for NHWC's direct forward, which
/// works on rows of pixels, and go through blocks of 16 channels.
std::vector<ConvolutionWay> convolution_ways(const Conv2dShape& shape, ConvolutionPass pass,
                                             dnnl::memory::data_type products);

/// How many images a call of the first of these ways should get at most, for backward_weight in Winograd: the
/// transformed images of one call, 36/16 of x and dy, are to stay in a cache that other cores use, too. Not
/// so few that the transformed weights, which each call goes through, would be as many. A pure function.
std::int64_t images_at_once(const Conv2dShape& shape, ConvolutionPass pass, dnnl::memory::data_type products);

}  // namespace tutti
