#include "fp32_winograd_shares.hpp"

#include <gtest/gtest.h>

namespace tutti::test {
namespace {

std::int64_t divided_up(std::int64_t a, std::int64_t b) {
    return (a + b - 1) / b;
}

// Of ResNet-18 on images of 28×28.
TEST(Fp32WinogradShares, each_thread_has_something_to_do) {
    const struct { std::int64_t image_tiles, channels; } layers[] = {{49, 64}, {16, 128}, {4, 256}, {1, 512}};
    for (const std::int64_t batch : {8, 16, 64})
        for (const std::int64_t threads : {1, 2, 3, 8, 16})
            for (const auto& [image_tiles, channels] : layers) {
                const Fp32WinogradShares shares(batch * image_tiles, channels, threads);
                EXPECT_GE(shares.items,
                          std::min(threads, shares.few ? channels / fp32_winograd_strip : threads))
                    << "batch " << batch << ", " << threads << " threads, " << channels << " channels";
                EXPECT_EQ(shares.items, shares.few ? divided_up(channels, shares.slab)
                                                   : divided_up(batch * image_tiles, shares.tiles_at_once));
            }
}

TEST(Fp32WinogradShares, one_thread_has_the_greatest_blocks_and_slabs) {
    EXPECT_EQ(Fp32WinogradShares(3136, 64, 1).tiles_at_once, 48);
    EXPECT_EQ(Fp32WinogradShares(3136, 512, 1).slab, 4 * fp32_winograd_strip);
    EXPECT_EQ(Fp32WinogradShares(64, 512, 1).slab, fp32_winograd_strip);
    EXPECT_EQ(Fp32WinogradShares(5, 8, 1).tiles_at_once, 5);
    EXPECT_FALSE(Fp32WinogradGradientShares(100, 64, 64, 1, 1).by_products);
    EXPECT_EQ(Fp32WinogradGradientShares(100, 64, 64, 8, 1).runs, 1);
}

TEST(Fp32WinogradShares, blocks_are_not_so_small_that_products_are_slow) {
    for (const std::int64_t tiles : {10, 40, 100})
        EXPECT_GE(Fp32WinogradShares(tiles, 16, 64).tiles_at_once, 6) << tiles;
}

TEST(Fp32WinogradGradientShares, items_that_cannot_be_dealt_evenly_are_shared_by_their_products) {
    const auto by_products = [](std::int64_t items) {
        return Fp32WinogradGradientShares(100, 64, 64, items, 16).by_products;
    };
    for (const std::int64_t items : {1, 2, 3, 8}) EXPECT_TRUE(by_products(items)) << items;
    for (const std::int64_t items : {16, 32, 65}) EXPECT_FALSE(by_products(items)) << items;
    EXPECT_GT(Fp32WinogradGradientShares(100, 64, 64, 8, 16).runs, 1);
}

TEST(Fp32WinogradGradientShares, no_chain_is_without_tiles) {
    EXPECT_EQ(Fp32WinogradGradientShares(64, 16, 16, 1, 2).chains, 1);
    EXPECT_EQ(Fp32WinogradGradientShares(65, 16, 16, 1, 2).chains, 2);
}

// Of ResNet-18 on 64 images of 28×28.
TEST(Fp32WinogradGradientShares, many_tiles_of_few_channels_are_summed_in_chains_whatever_the_threads) {
    for (const std::int64_t threads : {1, 2, 3, 4, 8}) {
        const Fp32WinogradGradientShares first(3136, 64, 64, 4, threads), second(1024, 128, 128, 12, threads),
            third(256, 256, 256, 48, threads);
        EXPECT_EQ(first.chains, 4);
        EXPECT_EQ(second.chains, 2);
        EXPECT_EQ(third.chains, 1);
        EXPECT_EQ(first.by_chains, threads == 1 || threads == 2 || threads == 4) << threads;
        EXPECT_EQ(second.by_chains, threads <= 2) << threads;
        EXPECT_FALSE(third.by_chains);
        EXPECT_FALSE(first.by_chains && first.by_products);
    }
}

}  // namespace
}  // namespace tutti::test
