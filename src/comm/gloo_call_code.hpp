#pragma once
// Private to comm: what a call over gloo is, as one number, so that ranks can compare theirs.

#include <cstdint>
#include <string>

#include "checks.hpp"

namespace tutti {

enum class GlooKind : std::uint8_t {
    all_reduce = 1,
    reduce_scatter,
    all_gather,
    broadcast,
    exchange,
    barrier
};

/// "all_reduce".
inline const char* name_of(GlooKind kind) {
    constexpr const char* names[] = {"",          "all_reduce", "reduce_scatter", "all_gather",
                                     "broadcast", "exchange",   "barrier"};
    return names[static_cast<int>(kind)];
}

/// The same on all ranks of a call. detail: the operation or the root. 0 is no call's.
inline std::uint64_t code_of(GlooKind kind, std::int64_t count, DType dtype, int detail) {
    return static_cast<std::uint64_t>(count) << 16 | (static_cast<std::uint64_t>(detail) & 255) << 8 |
           static_cast<std::uint64_t>(dtype) << 3 | static_cast<std::uint64_t>(kind);
}

/// "all_reduce of 1024 f32".
inline std::string describe_call(std::uint64_t code) {
    const auto kind = static_cast<GlooKind>(code & 7);
    return kind == GlooKind::barrier ? name_of(kind)
                                     : describe(name_of(kind), static_cast<std::int64_t>(code >> 16),
                                                static_cast<DType>(code >> 3 & 31));
}

}  // namespace tutti
