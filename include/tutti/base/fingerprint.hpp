#pragma once
// A number for a piece of memory, to tell whether two pieces differ.

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

/// Depends on every bit, on the length and on `seed`, with which pieces are chained. As fast as memory is
/// read; not for those who would forge it. Two pieces of one length that differ within 8 aligned bytes never
/// have the same number; others by an accident of about 1 in 2⁶⁴. Per 8 bytes the state is multiplied as in
/// FNV-1a, and shifted onto itself, in 32 lanes side by side. Depends on the processor's byte order.
std::uint64_t fingerprint(std::span<const std::byte> bytes, std::uint64_t seed = 0);

}  // namespace tutti
