#include "tutti/train/processor_cost.hpp"

#include <gtest/gtest.h>

#include "support/thread_communicator.hpp"
#include "tutti/device/device.hpp"

namespace tutti {
namespace {

TEST(FitProcessorCost, SolvesForBothAndKeepsThemAtLeastZero) {
    struct Row {
        std::vector<ProcessorSample> samples;
        ProcessorCost wanted;
    };
    for (const Row& row : {
             Row{{}, {0, 0}},
             Row{{{8, 0, 16}}, {2, 0}},
             Row{{{0, 100, 50}}, {0, 0.5}},
             // 8a + 40b = 18, a + 1000b = 52.
             Row{{{8, 40, 18}, {1, 1000, 52}}, {2, 0.05}},
             // Without a bound a would be -1: b alone.
             Row{{{1, 10, 0}, {1, 20, 1}}, {0, 0.04}},
             // b would be -1: a alone.
             Row{{{1, 0, 3}, {1, 1, 2}}, {2.5, 0}},
             // As many bytes for each transfer: they cannot be told apart, and bytes are taken to cost
             // nothing.
             Row{{{8, 32, 16}, {1, 4, 2}}, {2, 0}},
             // A computation that seemed faster beside transfers.
             Row{{{8, 40, -1}, {1, 1000, -1}}, {0, 0}},
         }) {
        const ProcessorCost cost = fit_processor_cost(row.samples);
        EXPECT_NEAR(cost.per_transfer, row.wanted.per_transfer, 1e-12);
        EXPECT_NEAR(cost.seconds_per_byte, row.wanted.seconds_per_byte, 1e-12);
    }
}

TEST(ScaledTo, GoesByTheStepsButStaysNearTheMeasurement) {
    const ProcessorCost measured{2, 0.05};  // 26 of 8 and 200 bytes, 52 of 1 and 1000 bytes
    struct Row {
        std::vector<ProcessorSample> samples;
        double factor;
    };
    for (const Row& row : {
             Row{{}, 1},
             Row{{{8, 200, 26}, {1, 1000, 52}}, 1},
             Row{{{8, 200, 39}, {1, 1000, 78}}, 1.5},
             // The dearer one counts more.
             Row{{{8, 200, 52}, {1, 1000, 62.4}}, 1.2},
             // One beside another program changes nothing.
             Row{{{8, 200, 26}, {1, 1000, 52}, {1, 1000, 900}, {1, 1000, 52}}, 1},
             // Steps that happened to compute as fast as those in one bucket, faster, or far slower.
             Row{{{8, 200, 0}, {1, 1000, 0}}, 0.5},
             Row{{{8, 200, -30}, {1, 1000, -90}}, 0.5},
             Row{{{8, 200, 500}, {1, 1000, 900}}, 2},
             // That sent nothing beside a computation.
             Row{{{0, 0, 7}}, 1},
         }) {
        const ProcessorCost cost = scaled_to(measured, row.samples);
        EXPECT_NEAR(cost.per_transfer, row.factor * 2, 1e-12);
        EXPECT_NEAR(cost.seconds_per_byte, row.factor * 0.05, 1e-12);
    }
    EXPECT_EQ(scaled_to({}, std::vector<ProcessorSample>{{8, 200, 26}}), ProcessorCost{});
}

TEST(LargeTransfer, IsFarFromTheSmallOneWhateverTheLatency) {
    constexpr std::size_t small = 4096, mebibyte = 1 << 20;
    const auto model = [](double alpha, double seconds_per_byte) {
        return CostModel({{.from_bytes = 0, .alpha = alpha, .seconds_per_byte = seconds_per_byte}});
    };
    EXPECT_EQ(large_transfer(mebibyte, small, model(0, 1e-9)), mebibyte);
    EXPECT_EQ(large_transfer(8 * mebibyte, small, model(0, 1e-9)), 2 * mebibyte);
    EXPECT_EQ(large_transfer(8 * mebibyte, small, model(0.004, 1e-9)), 2 * mebibyte);
    EXPECT_EQ(large_transfer(8 * mebibyte, small, model(0, 1e-6)), 16 * small);
    EXPECT_EQ(large_transfer(8 * small, small, model(0, 1)), 8 * small);
}

TEST(ProcessorRounds, FitIntoTheBudget) {
    EXPECT_EQ(processor_rounds(0.001, 0.1), 5);
    EXPECT_EQ(processor_rounds(0.01, 0.1), 4);
    EXPECT_EQ(processor_rounds(0.03, 0.1), 1);
    EXPECT_EQ(processor_rounds(0.04, 0.1), 0) << "one that does not count, one alone and one beside";
    EXPECT_EQ(processor_rounds(2.4, 0.1), 0);
    EXPECT_EQ(processor_rounds(0, 0.1), 5);
    EXPECT_EQ(processor_rounds(0.001, -0.1), 0);
}

TEST(MeasureProcessorCost, LeavesSlowNetworksAlone) {
    test::run_on_threads(2, [](Communicator& world) {
        const auto control = world.duplicate();
        const auto device = make_cpu_device(1);
        std::vector<float> arena(32'768, 3);
        const CostModel cost =
            CostModel({{.from_bytes = 0, .alpha = 0.1, .seconds_per_byte = 1e-9}}).with_latency(0.1);
        EXPECT_EQ(
            measure_processor_cost(world, *control, device->ops(DType::f32), view_of(std::span(arena)), cost),
            ProcessorCost{});
        EXPECT_EQ(arena, std::vector<float>(32'768, 3)) << "nothing was sent";
    });
}

TEST(MeasureProcessorCost, IsTheSameOnAllRanksAndNothingWhereThereIsNoRoom) {
    test::run_on_threads(3, [](Communicator& world) {
        const auto control = world.duplicate();
        const auto device = make_cpu_device(1);
        std::vector<float> arena(32'768, 3);
        const CostModel cost({{.from_bytes = 0, .alpha = 1e-5, .seconds_per_byte = 1e-9}});
        Ops& ops = device->ops(DType::f32);
        const ProcessorCost mine =
            measure_processor_cost(world, *control, ops, view_of(std::span(arena)), cost);
        std::vector<double> numbers{mine.per_transfer, mine.seconds_per_byte};
        for (const double number : numbers) EXPECT_GE(number, 0);
        control->broadcast(view_of(std::span(numbers)), 0).wait();
        EXPECT_EQ(mine, (ProcessorCost{numbers[0], numbers[1]}));
        EXPECT_EQ(measure_processor_cost(world, *control, ops, view_of(std::span(arena).first(100)), cost),
                  ProcessorCost{});
    });
}

}  // namespace
}  // namespace tutti
