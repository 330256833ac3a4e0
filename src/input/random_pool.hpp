#pragma once
// What data sets of random samples have in common.

#include <cstdint>

namespace tutti {

/// So many bytes are drawn once, and used again and again.
inline constexpr std::int64_t random_pool_bytes = std::int64_t{16} << 20;
/// They are kept in memory: 4 GiB.
inline constexpr std::int64_t most_random_targets = std::int64_t{1} << 30;

}  // namespace tutti
