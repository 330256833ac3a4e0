// Pairs that are turned: the pairs of rows as they lie, in the other order.
#include "bf16_pairs.hpp"

#include <random>
#include <vector>

#include "bf16_reference.hpp"

namespace tutti::test {
namespace {

class Bf16Pairs : public Bf16KernelTest {};

std::vector<float> random_numbers(std::int64_t count, unsigned seed) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> number(-2, 2);
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& one : numbers) one = number(generator);
    return numbers;
}

TEST_F(Bf16Pairs, are_turned) {
    constexpr Bf16Pair untouched = 0x12345678;
    for (const std::int64_t count : {1, 15, 16, 17, 40})
        for (const std::int64_t times : {1, 7, 16, 33})
            for (const bool has_second : {false, true}) {
                SCOPED_TRACE(testing::Message() << count << " numbers, " << times << " times"
                                                << (has_second ? ", two rows" : ""));
                // Both rows' tensors are one: what is rounded lies as far apart.
                const std::int64_t step = count + 3, size = times * step, to_row = times + 2;
                const std::vector<float> rows = random_numbers(2 * size, 1);
                const float* const first = rows.data();
                const float* const second = has_second ? first + size : nullptr;
                std::vector<Bf16Pair> turned(static_cast<std::size_t>(count * to_row), untouched);
                std::vector<std::uint16_t> rounded_rows(rows.size(), 1);
                std::vector<float> sums(static_cast<std::size_t>(count), 5.0f), expected = sums;
                turn_bf16_pairs(first, second, count, times, step, turned.data(), to_row,
                                {rounded_rows.data(), sums.data()});
                for (std::int64_t n = 0; n < count; ++n)
                    for (std::int64_t t = 0; t < to_row; ++t) {
                        const Bf16Pair pair = turned[static_cast<std::size_t>(n * to_row + t)];
                        if (t >= times) {
                            ASSERT_EQ(pair, untouched) << "beyond row " << n;
                            continue;
                        }
                        const auto at = static_cast<std::size_t>(t * step + n);
                        const float one = first[at], other = has_second ? second[at] : 0;
                        ASSERT_EQ(pair, bf16_bits(one) | Bf16Pair{bf16_bits(other)} << 16)
                            << "number " << n << ", time " << t;
                        ASSERT_EQ(rounded_rows[at], bf16_bits(one));
                        ASSERT_EQ(rounded_rows[static_cast<std::size_t>(size) + at],
                                  has_second ? bf16_bits(other) : 1);
                        expected[static_cast<std::size_t>(n)] += one + other;
                    }
                EXPECT_EQ(sums, expected);
            }
}

}  // namespace
}  // namespace tutti::test
