#include "tutti/comm/all_reduce_path.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

/// The path of `world` ranks of which no two, or up to so many, share a host.
std::string path_of_even(const SeenPath& seen, int world, int each = 1) {
    return path_on(seen, world, even_hosts(world, each));
}

TEST(PathOn, ranks_on_hosts_of_their_own_exchange_directly_up_to_32) {
    const SeenPath seen{.path = "direct exchange", .world = 4, .hosts = 4};
    EXPECT_EQ(path_of_even(seen, 2), "direct exchange");
    EXPECT_EQ(path_of_even(seen, 32), "direct exchange");
    EXPECT_EQ(path_of_even(seen, 33), "MPI_Iallreduce");
    // A file that does not say where its ranks were.
    EXPECT_EQ(path_of_even({.path = "direct exchange", .world = 4}, 33), "MPI_Iallreduce");
    EXPECT_EQ(path_of_even({.path = "MPI_Iallreduce", .world = 40, .hosts = 40}, 16), "direct exchange");
    EXPECT_EQ(path_of_even({.path = "MPI_Iallreduce", .world = 40, .hosts = 40}, 64), "MPI_Iallreduce");
}

TEST(PathOn, ranks_on_uneven_hosts_exchange_directly_up_to_8) {
    const SeenPath seen{.path = "direct exchange", .world = 5, .hosts = 2};
    EXPECT_EQ(path_of_even(seen, 8), "direct exchange");
    EXPECT_EQ(path_of_even(seen, 9), "MPI_Iallreduce");
    EXPECT_EQ(path_of_even({.path = "MPI_Iallreduce", .world = 9, .hosts = 2}, 8), "direct exchange");
}

TEST(PathOn, sums_of_hosts_come_first_on_up_to_32_of_them) {
    const SeenPath seen{.path = "shared memory and direct exchange", .world = 8, .hosts = 2};
    EXPECT_EQ(path_of_even(seen, 128, 4), seen.path);
    EXPECT_EQ(path_of_even(seen, 132, 4), "MPI_Iallreduce");
    EXPECT_EQ(path_of_even(seen, 2, 4), "direct exchange");  // one on each of two
    const SeenPath over_gloo{.path = "shared memory and gloo", .world = 8, .hosts = 2};
    EXPECT_EQ(path_of_even(over_gloo, 128, 4), over_gloo.path);
    EXPECT_EQ(path_of_even(over_gloo, 132, 4), "gloo");
    EXPECT_EQ(path_of_even(over_gloo, 2, 4), "gloo");
}

TEST(PathOn, nothing_is_said_of_hosts_that_are_not_known) {
    for (const char* same : {"shared memory and direct exchange", "shared memory and gloo"})
        for (const int world : {2, 80}) EXPECT_EQ(path_of_even({.path = same, .world = 8}, world), same);
}

TEST(PathOn, bf16_is_never_added_by_mpi) {
    EXPECT_EQ(path_of_even({.path = "direct exchange", .compressed = true, .world = 4, .hosts = 4}, 64),
              "direct exchange");
    EXPECT_EQ(path_of_even(
                  {.path = "shared memory and direct exchange", .compressed = true, .world = 8, .hosts = 2},
                  132, 4),
              "direct exchange");
}

TEST(PathOn, what_does_not_go_by_numbers_stays) {
    for (const char* same : {"shared memory", "gloo", "NCCL 2.28.9", "NCCL 2.28.9, in bf16"})
        for (const int world : {2, 40})
            EXPECT_EQ(path_of_even({.path = same, .world = 4, .hosts = 4}, world), same);
}

TEST(PathOn, keeps_that_memory_is_pinned) {
    const SeenPath seen{.path = "direct exchange, through pinned host memory", .world = 4, .hosts = 4};
    EXPECT_EQ(path_of_even(seen, 64), "MPI_Iallreduce, through pinned host memory");
}

TEST(AddsWithinHosts, holds_for_the_two_paths_of_two_levels) {
    for (const char* one : {"shared memory and direct exchange", "shared memory and gloo",
                            "shared memory and direct exchange, through pinned host memory"})
        EXPECT_TRUE(adds_within_hosts(one)) << one;
    for (const char* one : {"shared memory", "direct exchange", "gloo", "MPI_Iallreduce", "NCCL 2.28.9"})
        EXPECT_FALSE(adds_within_hosts(one)) << one;
}

TEST(SendsBetweenAll, holds_for_our_exchanges_and_not_for_what_libraries_choose) {
    for (const char* one : {"direct exchange", "shared memory and direct exchange", "gloo",
                            "shared memory and gloo", "direct exchange, through pinned host memory"})
        EXPECT_TRUE(sends_between_all(one)) << one;
    for (const char* one : {"MPI_Iallreduce", "shared memory", "NCCL 2.28.9"})
        EXPECT_FALSE(sends_between_all(one)) << one;
}

}  // namespace
}  // namespace tutti
