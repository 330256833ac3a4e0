#pragma once
// What every backend demands of its arguments, said with the same words.

#include <cstdint>
#include <string>

#include "tutti/base/error.hpp"
#include "tutti/comm/communicator.hpp"

namespace tutti {

/// "all_reduce of 1024 f32".
inline std::string describe(const char* call, std::int64_t count, DType dtype) {
    return std::string(call) + " of " + std::to_string(count) + " " + std::string(name_of(dtype));
}

inline void require_reducible(const char* call, const TensorView& buffer) {
    if (buffer.dtype != DType::u8) return;
    throw UsageError(describe(call, buffer.count(), buffer.dtype) + ": this type cannot be reduced",
                     "use f32, f64, i64 or bf16");
}

/// Of a library that rounds after each addition, so that errors grow with the number of ranks.
inline void require_exact_additions(const char* call, const TensorView& buffer) {
    require_reducible(call, buffer);
    if (buffer.dtype != DType::bf16) return;
    throw UsageError(describe(call, buffer.count(), buffer.dtype) + ": NCCL would round each partial sum",
                     "use f32");
}

/// whole: size·n elements, part: n.
inline void require_blocks(const char* call, const TensorView& whole, const TensorView& part, int size) {
    if (whole.dtype == part.dtype && whole.count() == part.count() * size) return;
    throw UsageError(describe(call, whole.count(), whole.dtype) + ": the rank's part has " +
                         std::to_string(part.count()) + " " + std::string(name_of(part.dtype)),
                     "give it 1/" + std::to_string(size) + " of the elements and the same type");
}

/// size·n elements each, of one type that can be reduced.
inline void require_pair(const char* call, const TensorView& input, const TensorView& output, int size) {
    require_reducible(call, input);
    if (input.dtype == output.dtype && input.count() == output.count() && input.count() % size == 0) return;
    throw UsageError(describe(call, input.count(), input.dtype) + ": the output has " +
                         std::to_string(output.count()) + " " + std::string(name_of(output.dtype)) +
                         ", for " + std::to_string(size) + " ranks",
                     "give both the same type and number of elements, the same for each rank");
}

inline void require_root(const char* call, int root, int size) {
    if (root >= 0 && root < size) return;
    throw UsageError(std::string(call) + ": there is no root rank " + std::to_string(root),
                     "use a rank from 0 to " + std::to_string(size - 1));
}

/// Of an exchange in pairs.
inline void require_pair(const TensorView& send, const TensorView& receive, int peer, int rank, int size) {
    if (peer < 0 || peer >= size || peer == rank)
        throw UsageError("exchange: rank " + std::to_string(rank) + " of " + std::to_string(size) +
                             " cannot have rank " + std::to_string(peer) + " as its peer",
                         "use another rank from 0 to " + std::to_string(size - 1));
    if (send.dtype == receive.dtype && send.count() == receive.count()) return;
    throw UsageError(describe("exchange", send.count(), send.dtype) + " for " +
                         std::to_string(receive.count()) + " " + std::string(name_of(receive.dtype)),
                     "send and receive the same number of elements of one type");
}

}  // namespace tutti
