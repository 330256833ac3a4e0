#pragma once
// What tests of masks have in common.

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "backend.hpp"
#include "tutti/base/random.hpp"

namespace tutti::test {

inline const std::vector<std::int64_t> three_positions = {5, 0, 123456789};

/// Draws orders.
class MaskingCase : public KernelTest {
  protected:
    TestTensor order_of(const DropoutAddress& address, const TubeMask& mask) {
        TestTensor order(DType::i64, {static_cast<std::int64_t>(address.positions.size()), mask.tokens()});
        ops_->mask_tokens(address, mask, order.view());
        return order;
    }
    static TestTensor indices(const Shape& shape, const std::vector<double>& values) {
        return {DType::i64, shape, values};
    }
    /// Of each sample another one, from the same address.
    TestTensor drawn_order(std::int64_t samples, const TubeMask& mask) {
        std::vector<std::int64_t> positions(static_cast<std::size_t>(samples));
        std::iota(positions.begin(), positions.end(), 7);
        return order_of({.seed = 3, .epoch = 1, .positions = positions}, mask);
    }
};
/// The contract's words, by a full sort.
inline std::vector<double> expected_order(const DropoutAddress& address, const TubeMask& mask) {
    std::vector<double> order;
    for (const std::int64_t position : address.positions) {
        const RandomStream random(address.seed, RandomPlace::mask, static_cast<std::uint64_t>(address.epoch),
                                  static_cast<std::uint64_t>(position));
        std::vector<std::pair<std::uint64_t, std::int64_t>> keys;
        for (std::int64_t p = 0; p < mask.places; ++p) {
            const auto words = random.bits(static_cast<std::uint64_t>(p));
            keys.emplace_back(static_cast<std::uint64_t>(words[0]) * (std::uint64_t{1} << 32) + words[1], p);
        }
        std::sort(keys.begin(), keys.end());
        std::vector<bool> hidden(static_cast<std::size_t>(mask.places));
        for (std::int64_t i = 0; i < mask.hidden; ++i)
            hidden[static_cast<std::size_t>(keys[static_cast<std::size_t>(i)].second)] = true;
        for (const bool wanted : {false, true})
            for (std::int64_t t = 0; t < mask.tokens(); ++t)
                if (hidden[static_cast<std::size_t>(t / mask.repeats)] == wanted)
                    order.push_back(static_cast<double>(t));
    }
    return order;
}

}  // namespace tutti::test
