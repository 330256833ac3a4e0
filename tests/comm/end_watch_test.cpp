#include "end_watch.hpp"

#include <gtest/gtest.h>

#include "suspension.hpp"

namespace tutti::test {
namespace {

// A watch that counts it ends this process.
TEST(EndWatch, time_in_which_the_process_was_suspended_does_not_count) {
    Suspension suspension([looks = 0]() mutable { return ++looks > 4; });
    const EndWatch watch("rank 0 on here", 30, suspension.clock());
    suspension.wait_for_looks(4);
}

}  // namespace
}  // namespace tutti::test
