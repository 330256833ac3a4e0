#pragma once
// For operators that a mask tells which tokens of a sample are padding: how many are not, in scratch memory.

#include "cuda_context.hpp"
#include "row_softmax.hpp"

namespace tutti::cuda {

inline Wanted counts_of(const TensorView& mask) {
    return {DType::i64, mask.defined() ? Shape{mask.shape[0]} : Shape{0}};
}
/// `counts`, filled; undefined without a mask.
inline TensorView counted(const TensorView& mask, const TensorView& counts, Stream stream) {
    if (!mask.defined()) return {};
    count_existing(mask, counts, stream);
    return counts;
}

}  // namespace tutti::cuda
