#pragma once
// What a trainable tensor is called, how it lies in a file and in the arena, and how it begins.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/base/shape.hpp"

namespace tutti {

/// How the values of a parameter begin. uniform: U(-bound, bound); constant: `value`; normal: mean 0;
/// truncated_normal: those of the normal's values that lie in [-cut, cut] (torch.nn.init.trunc_normal_, whose
/// bounds are absolute, too, not multiples of std).
struct Initializer {
    enum class Kind { constant, uniform, normal, truncated_normal };
    Kind kind = Kind::constant;
    double value = 0;  ///< the constant, the bound, or the standard deviation
    double cut = 0;    ///< of truncated_normal

    static Initializer constant(double value) { return {Kind::constant, value}; }
    static Initializer uniform(double bound) { return {Kind::uniform, bound}; }
    static Initializer normal(double std) { return {Kind::normal, std}; }
    static Initializer truncated_normal(double std, double cut = 2) {
        return {Kind::truncated_normal, std, cut};
    }
};

/// A parameter as its layer declares it. Files hold PyTorch's element order: `file_shape`, row-major. The
/// arena holds the order that fits NHWC: seen as `view` (same count as file_shape, same element order), its
/// dimensions are permuted so that arena dimension i is view dimension permutation[i].
///   conv2d weight: file = view = {O, I/g, KH, KW}, permutation {0, 2, 3, 1}: the arena has {O, KH, KW, I/g}.
///   linear behind an image {H, W, C}: file {O, C·H·W}, view {O, C, H, W}, permutation {0, 2, 3, 1}.
struct ParameterSpec {
    std::string name;  ///< within the layer: "weight", "bias"; the whole name in a layer without one
    Shape file_shape;
    Shape view;
    std::vector<std::size_t> permutation;  ///< identity when empty
    Initializer initial;

    Shape arena_shape() const;
};

/// Where a parameter of a graph lies. Parameters, gradients and optimizer state share offsets.
struct Parameter {
    std::string name;  ///< PyTorch's, in the whole model: "conv1.weight"
    ParameterSpec spec;
    std::int64_t offset = 0;  ///< elements from the arena's beginning
    std::int64_t count = 0;
    std::size_t number = 0;  ///< place in PyTorch's order of registration; addresses its initial values
};

/// Copies `elements` of `element_bytes` each from the file's order to the arena's (to_arena) or back.
void reorder_to_arena(const ParameterSpec& spec, std::size_t element_bytes, const std::byte* file,
                      std::byte* arena);
void reorder_to_file(const ParameterSpec& spec, std::size_t element_bytes, const std::byte* arena,
                     std::byte* file);

}  // namespace tutti
