#pragma once
// Patches of images or clips as tokens: x[N, F, H, W, C] -> tokens[N, T, PF·PH·PW·C], T = F/PF · H/PH · W/PW,
// frames before rows before columns, in the order of T as within a token. A convolution whose stride is its
// kernel is then a linear layer with the same weights [O, PF, PH, PW, I]. f32, bf16 or u8; the bits are moved
// as they are. One launch each; where a patch's rows are multiples of 16 bytes, in whole vectors.
//
// Moves: 2·N·s bytes for N elements, s = 4, 2 or 1. Floor at 4.3 TB/s: 64·224·224·3 in bf16 in 9 µs either
// way.

#include "stream.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti::cuda {

/// Of one sample; each patch size divides the image's. For images frames and patch_frames are 1.
struct PatchShape {
    std::int64_t height = 0, width = 0, channels = 0;
    std::int64_t patch_height = 1, patch_width = 1;
    std::int64_t frames = 1, patch_frames = 1;
    std::int64_t tokens() const {
        return frames / patch_frames * (height / patch_height) * (width / patch_width);
    }
    std::int64_t token_width() const { return patch_frames * patch_height * patch_width * channels; }
};

void extract_patches(const PatchShape& shape, const TensorView& x, const TensorView& tokens, Stream stream);
/// The inverse, and so extraction's backward: every element of x is in one token.
void join_patches(const PatchShape& shape, const TensorView& tokens, const TensorView& x, Stream stream);

}  // namespace tutti::cuda
