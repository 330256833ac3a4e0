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
/// 3×3 windows with stride 1, where our own (fp32_winograd.hpp) does not take them, go to Winograd's F(4×4,
/// 3×3) (A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015), in fp32: a quarter of
/// the multiplications, with rounding errors of about twice the direct sum's. Images of up to 4×4 pixels are
/// too small for NHWC's direct forward, which works on rows of pixels, and go through blocks of 16 channels.
std::vector<ConvolutionWay> convolution_ways(const Conv2dShape& shape, ConvolutionPass pass,
                                             dnnl::memory::data_type products);

/// How many images a call of the first of these ways should get at most, for backward_weight in Winograd: the
/// transformed images of one call, 36/16 of x and dy, are to stay in a cache that other cores use, too. Not
/// so few that the transformed weights, which each call goes through, would be as many. A pure function.
std::int64_t images_at_once(const Conv2dShape& shape, ConvolutionPass pass, dnnl::memory::data_type products);

/// A batch in so many parts, computed by so many threads at once, each of which calls oneDNN for parts of its
/// own; or, with one caller, by all threads part after part.
struct BatchDeal {
    std::int64_t parts = 1;
    int callers = 1;

    bool operator==(const BatchDeal&) const = default;
};

/// Threads that wait for each other once per layer lose less than those of one call, which wait for each
/// other many times in it. So each gets parts of its own, where there are enough for all to have equally
/// much to do and each is enough for what every call does, whatever it gets (the weights' transform).
/// Parts are equal for forward and backward_data, and nearly so (share_begin) for backward_weight, where they
/// are the slices of both gradients. A pure function.
BatchDeal deal(const Conv2dShape& shape, ConvolutionPass pass, dnnl::memory::data_type products,
               std::int64_t batch, int threads);

}  // namespace tutti
