#pragma once
// The gradient of the image through the convolution of winner_gradients.hpp, in two ways.

#include "winner_gradients.hpp"

namespace tutti {

/// Window by window its sums are gathered in the registers, from the weights of those output channels that
/// won there: on AVX2 (Zen 3) faster than output channel by output channel, whose addends go to sums that are
/// read from the image and written back. With AVX-512 the registers hold an output channel's weights of two
/// vectors, and a slice of all weights of one (36 KiB of 64 output channels), which each window reads, is
/// more than its sums: not measured there, so each output channel's gradients are scattered.
inline constexpr bool gathers_winners = vector_bytes < 64;
/// The slices of the image's gradient in either way.
inline constexpr std::int64_t gathered_slice = lanes<float>, scattered_slice = weight_slice;
inline constexpr std::int64_t image_gradient_slice = gathers_winners ? gathered_slice : scattered_slice;

/// Slices [begin, end) of ordered[in / gathered_slice, out, 3, 3, gathered_slice] = weight[out, 3, 3, in].
void order_winner_weights(const WinnerGradients& p, const float* weight, std::int64_t begin, std::int64_t end,
                          float* ordered);

/// winner as list_winners has it. list[windows, 4, out], of which count[windows, 4] are filled: the output
/// channels that won at each place of a window. At most most_passed output channels.
void list_passed(const WinnerGradients& p, const unsigned char* winner, std::uint16_t* list,
                 std::int32_t* count);
inline constexpr std::int64_t most_passed = std::int64_t{1} << 13;

/// Adds to the gradient of the padded image, in slices of gathered_slice.
void gather_winner_image_gradients(const WinnerGradients& p, const float* ordered, const float* dy,
                                   const std::uint16_t* list, const std::int32_t* count,
                                   float* image_gradient);

/// The same in slices of scattered_slice, of weight[out, 3, 3, in] and list_winners' list.
void scatter_winner_image_gradients(const WinnerGradients& p, const float* weight, const Winner* list,
                                    const std::int32_t* count, float* image_gradient);

}  // namespace tutti
