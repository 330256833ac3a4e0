#include "tutti/comm/work.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace tutti::test {
namespace {

/// Counts what is asked of it; finished at the third test.
struct Counts {
    int tests = 0;
    int waits = 0;
    int destroyed = 0;
    bool fails = false;
};
class CountingTransfer final : public Work::Transfer {
  public:
    explicit CountingTransfer(Counts& counts) : counts_(counts) {}
    ~CountingTransfer() override { ++counts_.destroyed; }
    bool test() override { return ++counts_.tests == 3; }
    void wait() override {
        ++counts_.waits;
        if (counts_.fails) throw std::runtime_error("lost");
    }

  private:
    Counts& counts_;
};
Work make(Counts& counts) {
    return Work(std::make_unique<CountingTransfer>(counts));
}

TEST(work, default_is_finished) {
    Work work;
    EXPECT_TRUE(work.test());
    work.wait();
}

TEST(work, releases_the_transfer_when_a_test_finds_it_finished) {
    Counts counts;
    Work work = make(counts);
    EXPECT_FALSE(work.test());
    EXPECT_FALSE(work.test());
    EXPECT_EQ(counts.destroyed, 0);
    EXPECT_TRUE(work.test());
    EXPECT_EQ(counts.destroyed, 1);
    work.wait();
    EXPECT_EQ(counts.waits, 0);
}

TEST(work, waits_once) {
    Counts counts;
    {
        Work work = make(counts);
        work.wait();
        work.wait();
    }
    EXPECT_EQ(counts.waits, 1);
    EXPECT_EQ(counts.destroyed, 1);
}

TEST(work, waits_when_destroyed_or_replaced) {
    Counts first, second;
    {
        Work work = make(first);
        work = make(second);
        EXPECT_EQ(first.waits, 1);
        EXPECT_EQ(second.waits, 0);
    }
    EXPECT_EQ(second.waits, 1);
}

TEST(work, moving_keeps_it_pending) {
    Counts counts;
    Work work = make(counts);
    Work moved = std::move(work);
    EXPECT_EQ(counts.waits, 0);
    EXPECT_FALSE(moved.test());
    moved.wait();
    EXPECT_EQ(counts.waits, 1);
}

TEST(work, wait_throws_but_destruction_does_not) {
    Counts counts;
    counts.fails = true;
    {
        Work work = make(counts);
        EXPECT_THROW(work.wait(), std::runtime_error);
        EXPECT_TRUE(work.test());
    }
    { Work work = make(counts); }
    EXPECT_EQ(counts.waits, 2);
    EXPECT_EQ(counts.destroyed, 2);
}

}  // namespace
}  // namespace tutti::test
