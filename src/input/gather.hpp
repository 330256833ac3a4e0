#pragma once
// Samples copied together from places in memory that follow no order.

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

/// samples[indices[i]], of `bytes` > 0 bytes each, to out + i · bytes. Neighbours are copied in one piece.
/// While a piece is copied, samples after it are on their way, and the addresses of the pages of many more
/// are being looked up (several at once, where lines of one page wait for one look-up).
void gather(const std::byte* samples, std::size_t bytes, std::span<const std::int64_t> indices,
            std::byte* out);

}  // namespace tutti
