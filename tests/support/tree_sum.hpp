#pragma once
// The order in which ranks' values are added, written down once more, for comparison.

namespace tutti::test {

/// of(first) + … + of(first + ranks − 1): of n in a row the first 2^k, the largest such number below n, and
/// the others, each in the same way, then the two.
template <class Of>
auto tree_sum(int first, int ranks, const Of& of) -> decltype(of(0)) {
    if (ranks == 1) return of(first);
    int half = 1;
    while (2 * half < ranks) half *= 2;
    return tree_sum(first, half, of) + tree_sum(first + half, ranks - half, of);
}

}  // namespace tutti::test
