#include "combine.hpp"

#include <stdexcept>
#include <string>

namespace tutti {
namespace {

template <class T, class Operation>
void each(std::byte* out, const std::byte* a, const std::byte* b, std::int64_t count, Operation operation) {
    T* const to = reinterpret_cast<T*>(out);
    const T* const left = reinterpret_cast<const T*>(a);
    const T* const right = reinterpret_cast<const T*>(b);
    for (std::int64_t i = 0; i < count; ++i) to[i] = operation(left[i], right[i]);
}

template <class T>
void combine_as(std::byte* out, const std::byte* a, const std::byte* b, std::int64_t count, ReduceOp op) {
    switch (op) {
        case ReduceOp::sum:
            return each<T>(out, a, b, count, [](T x, T y) { return x + y; });
        case ReduceOp::max:
            return each<T>(out, a, b, count, [](T x, T y) { return y > x ? y : x; });
        case ReduceOp::min:
            return each<T>(out, a, b, count, [](T x, T y) { return y < x ? y : x; });
    }
}

}  // namespace

void combine(std::byte* out, const std::byte* a, const std::byte* b, std::int64_t count, DType dtype,
             ReduceOp op) {
    switch (dtype) {
        case DType::f32:
            return combine_as<float>(out, a, b, count, op);
        case DType::f64:
            return combine_as<double>(out, a, b, count, op);
        case DType::i64:
            return combine_as<std::int64_t>(out, a, b, count, op);
        case DType::u8:
        case DType::bf16:
            break;
    }
    throw std::logic_error("combine of " + std::string(name_of(dtype)) +
                           ": bf16 goes by combine_bf16, and u8 is not reduced");
}

void combine_received(std::byte* own, const std::byte* received, int rank, int ranks, std::int64_t count,
                      DType dtype, ReduceOp op) {
    if (count == 0 || ranks == 1) return;
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
    combine_ranks(
        own,
        [&](int other) -> const std::byte* {
            return other == rank ? own : received + bytes * static_cast<std::size_t>(other);
        },
        ranks, count, dtype, op);
}

}  // namespace tutti
