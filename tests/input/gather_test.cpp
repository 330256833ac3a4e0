#include "input/gather.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tutti {
namespace {

// As many as are fetched and looked up ahead, fewer and more; shorter and longer than what is fetched of
// each.
TEST(Gather, copies_each_sample_to_its_place_and_nothing_behind) {
    for (const std::size_t bytes : {1U, 63U, 784U, 1025U, 9000U})
        for (const std::size_t count : {0U, 1U, 15U, 16U, 64U, 65U, 200U}) {
            constexpr std::size_t samples = 37;
            std::vector<std::byte> pool(samples * bytes);
            for (std::size_t i = 0; i < pool.size(); ++i) pool[i] = static_cast<std::byte>(i * 7 + i / 251);
            // Neighbours, single samples and one twice.
            std::vector<std::int64_t> indices(count);
            for (std::size_t i = 0; i < count; ++i)
                indices[i] = static_cast<std::int64_t>((i % 7 < 4 ? i : i / 2 * 11) % samples);

            constexpr std::byte untouched{0xA5};
            std::vector<std::byte> out(count * bytes + 1, untouched), expected = out;
            for (std::size_t i = 0; i < count; ++i)
                for (std::size_t k = 0; k < bytes; ++k)
                    expected[i * bytes + k] = pool[static_cast<std::size_t>(indices[i]) * bytes + k];
            gather(pool.data(), bytes, indices, out.data());
            EXPECT_EQ(out, expected) << count << " samples of " << bytes << " bytes";
        }
}

}  // namespace
}  // namespace tutti
