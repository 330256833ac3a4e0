#pragma once
// The two algorithms of torch.randperm on the CPU (PyTorch, aten/src/ATen/native/TensorFactories.cpp,
// randperm_cpu), apart from the rule that chooses between them, so that each can be tested at any n.

#include <cstdint>
#include <vector>

namespace tutti {

/// From this n on, torch ≥ 2.6 draws 64 bits per entry: a 32-bit draw modulo n would be visibly uneven.
inline constexpr std::int64_t large_permutation = 0xFFFFFFFFLL / 20;

/// n < large_permutation: one 32-bit draw per entry but the last.
std::vector<std::int64_t> permutation_by_32_bits(std::int64_t n, std::uint64_t seed);

/// n ≥ large_permutation: two 32-bit draws per entry, the high half first.
std::vector<std::int64_t> permutation_by_64_bits(std::int64_t n, std::uint64_t seed);

}  // namespace tutti
