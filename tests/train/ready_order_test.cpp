#include "ready_order.hpp"

#include <gtest/gtest.h>

#include "support/thread_communicator.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

/// What rank 0's and the others' observations give on every rank.
void expect_text(const std::vector<std::size_t>& first, const std::vector<std::size_t>& others,
                 const std::string& expected) {
    test::run_on_threads(3, [&](Communicator& communicator) {
        const auto device = make_cpu_device(1);
        const std::vector<std::int64_t> hidden = {3};
        const Graph graph(build_mlp({4}, hidden, 2), *device, DType::f32, 1);
        EXPECT_EQ(ready_order_difference(communicator, graph, communicator.rank() == 0 ? first : others),
                  expected);
    });
}

TEST(ReadyOrder, ThePlannedOneIsFine) {
    expect_text({0, 1, 2, 3}, {0, 1, 2, 3}, "");
}

TEST(ReadyOrder, NamesTheFirstParameterThatCameEarly) {
    expect_text({0, 2, 1, 3}, {0, 2, 1, 3},
                "backward finished fc1.bias before fc2.weight, against the order of the gradient arena");
}

TEST(ReadyOrder, CountsTheRanksThatDifferFromRank0) {
    expect_text({0, 1, 2, 3}, {1, 0, 2, 3}, "2 ranks finished their gradients in another order than rank 0");
}

}  // namespace
}  // namespace tutti
