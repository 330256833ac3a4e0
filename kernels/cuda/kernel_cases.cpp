#include "tutti/device/kernel_cases.hpp"

namespace tutti {
namespace {

/// A kernel that moves `arrays` arrays [rows, width], and `more` bytes besides.
KernelCase moving(const char* kernel, const char* variant, DType dtype, std::int64_t rows, std::int64_t width,
                  std::int64_t arrays, std::int64_t more = 0) {
    const auto element = static_cast<std::int64_t>(size_of(dtype));
    return {kernel, variant, dtype, rows, width, arrays * rows * width * element + more};
}

// ResNet-50, 256 images: the first stage has the most rows, the last one the most channels.
constexpr std::int64_t first_rows = 256 * 56 * 56, last_rows = 256 * 7 * 7;
// ViT-B/16, 256 images of 197 tokens.
constexpr std::int64_t tokens = 256 * 197, patch_tokens = 256 * 196, token_width = 768;
// VideoMAE with ViT-B, 32 clips of 8 · 196 tokens, of which the encoder sees a tenth.
constexpr std::int64_t clips = 32, clip_tokens = 1568, seen = 160, patch_width = 1536, decoder_width = 384;
// The heat maps of 256 images of 384 x 384 pixels.
constexpr std::int64_t heat_cells = 256 * 96 * 96;
// Features of 64 videos of half an hour, a row per second.
constexpr std::int64_t seconds = 64 * 1800, feature_width = 512;
// A language model's head.
constexpr std::int64_t sentences = 4096, words = 50304;
constexpr std::int64_t parameters = 25'557'032;  // ResNet-50's

}  // namespace

std::vector<KernelCase> kernel_cases() {
    constexpr DType bf16 = DType::bf16, f32 = DType::f32;
    return {
        moving("batch_norm_moments", "", bf16, first_rows, 64, 1),
        moving("batch_norm_moments", "wide", bf16, last_rows, 2048, 1),
        moving("batch_norm_forward", "", bf16, first_rows, 64, 2),
        moving("batch_norm_forward", "add relu", bf16, first_rows, 256, 3),
        moving("batch_norm_forward", "relu", bf16, first_rows, 64, 2),
        moving("batch_norm_backward_sums", "relu", bf16, first_rows, 64, 2),
        moving("batch_norm_backward_sums", "add relu", bf16, first_rows, 256, 4),
        moving("batch_norm_backward", "relu", bf16, first_rows, 64, 3),
        moving("batch_norm_backward", "add relu", bf16, first_rows, 256, 3),
        moving("layer_norm_forward", "", bf16, tokens, token_width, 2),
        moving("layer_norm_backward", "", bf16, tokens, token_width, 3),
        moving("short_attention_forward", "", bf16, tokens, token_width, 4, 12 * tokens * 4),
        moving("short_attention_backward", "", bf16, tokens, token_width, 8, 12 * tokens * 4),
        moving("softmax_cross_entropy_forward", "", bf16, sentences, words, 1, sentences * words * 4),
        moving("softmax_cross_entropy_backward", "", bf16, sentences, words, 1, sentences * words * 4),
        moving("regression_loss_forward", "huber", bf16, patch_tokens, token_width, 1,
               patch_tokens * token_width * 8),
        moving("regression_loss_backward", "huber", bf16, patch_tokens, token_width, 1,
               patch_tokens * token_width * 4),
        moving("location_loss_forward", "", bf16, heat_cells, 2, 1, heat_cells * 2 * 4),
        moving("location_loss_backward", "", bf16, heat_cells, 2, 1, heat_cells * 2 * 4),
        moving("segment_loss_forward", "", f32, seconds, 4, 2, seconds * 2 * 4),
        moving("segment_loss_backward", "", f32, seconds, 4, 2),
        moving("relu_forward", "", bf16, first_rows, 256, 2),
        moving("sum_relu", "", bf16, first_rows, 256, 3),
        moving("sum_relu_backward", "", bf16, first_rows, 256, 4),
        moving("gelu_forward", "", bf16, tokens, 4 * token_width, 2),
        moving("gelu_backward", "", bf16, tokens, 4 * token_width, 3),
        moving("gelu_forward", "tanh", bf16, tokens, 4 * token_width, 2),
        moving("gelu_backward", "tanh", bf16, tokens, 4 * token_width, 3),
        moving("bias_forward", "gelu", bf16, tokens, 4 * token_width, 2),
        moving("bias_backward", "gelu", bf16, tokens, 4 * token_width, 3),
        moving("max_pool2d_forward", "", bf16, 4 * first_rows, 64, 1, first_rows * 64 * 3),
        moving("max_pool2d_backward", "", bf16, 4 * first_rows, 64, 1, first_rows * 64 * 3),
        moving("average_pool2d_forward", "global", bf16, last_rows, 2048, 1, 256 * 2048 * 2),
        moving("average_pool2d_backward", "global", bf16, last_rows, 2048, 1, 256 * 2048 * 2),
        moving("dropout_forward", "", bf16, patch_tokens, token_width, 2, patch_tokens * token_width),
        moving("drop_path", "", bf16, patch_tokens, token_width, 2),
        moving("pool_tokens_forward", "mean", bf16, patch_tokens, token_width, 1, 256 * token_width * 2),
        moving("mask_tokens", "", DType::i64, clips, clip_tokens, 1),
        moving("running_cells", "", DType::i64, clips, seen + clip_tokens / 2, 2),
        moving("take_tokens", "of fp32", bf16, clips * seen, patch_width, 1, clips * seen * patch_width * 4),
        moving("fill_tokens_forward", "", bf16, clips * clip_tokens, decoder_width, 1,
               clips * seen * decoder_width * 2),
        moving("fill_tokens_backward", "", bf16, clips * clip_tokens, decoder_width, 1,
               clips * seen * decoder_width * 2),
        moving("last_tokens_forward", "", bf16, clips * (clip_tokens - seen), decoder_width, 2),
        moving("last_tokens_backward", "", bf16, clips * clip_tokens, decoder_width, 1,
               clips * (clip_tokens - seen) * decoder_width * 2),
        moving("patch_differences", "", f32, clips * (clip_tokens - seen), patch_width, 3),
        moving("copy_columns", "", bf16, seconds, feature_width, 2),
        moving("extract_patches", "", bf16, 256 * 224, 224 * 3, 2),
        moving("space_to_depth", "", bf16, 256 * 224 * 224, 3, 1, 256 * 115 * 29 * 64 * 2),
        moving("normalize", "", bf16, 256 * 224 * 224, 3, 1, 256 * 224 * 224 * 3),
        moving("cast", "to fp32", bf16, 1, parameters, 1, parameters * 4),
        moving("accumulate", "into fp32", bf16, 1, parameters, 1, parameters * 8),
        moving("scale", "", f32, 1, parameters, 2),
        moving("lerp", "", f32, 1, parameters, 3),
        moving("sgd_of_segments", "momentum", f32, 1, parameters, 5),
        moving("adam_of_segments", "", f32, 1, parameters, 7),
        moving("lamb_of_segments", "", f32, 1, parameters, 12),
        moving("sgd", "momentum, one launch", f32, 1, parameters, 5),
        moving("adam", "one launch", f32, 1, parameters, 7),
        moving("lamb", "one launch", f32, 1, parameters, 10),
        moving("sum_of_squares", "", f32, 1, parameters, 1),
        moving("find_non_finite", "", f32, 1, parameters, 1),
    };
}

}  // namespace tutti
