#include "tutti/train/step_timeline.hpp"

#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <thread>

#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

TEST(StepTimeline, LayersThatTookTurnsLieOneAfterTheOtherEachAsLongAsItsTurnsTogether) {
    const auto device = make_cpu_device(1);
    const std::vector<std::int64_t> hidden = {3};
    const Graph graph(build_mlp({4}, hidden, 2), *device, DType::f32, 1);
    constexpr std::size_t layers = 3, turns = 4;
    ASSERT_EQ(graph.report().size(), layers);
    StepRecorder recorder(graph, 1);
    recorder.begin_step(0);
    recorder.begin_micro_batch();
    std::vector<double> least(layers);
    const double begin = recorder.now();
    for (std::size_t turn = 0; turn < turns; ++turn)
        for (std::size_t layer = 0; layer < layers; ++layer) {
            recorder.forward_begins(layer);
            const double began = recorder.now();
            // Until the clock has gone on, further for each layer.
            double now = began;
            while (now - began < static_cast<double>(layer + 1) * 1e-6) now = recorder.now();
            recorder.forward_ends(layer);
            least[layer] += now - began;
        }
    const double end = recorder.now();
    recorder.forward_took_turns(0, layers - 1);

    const std::vector<TimeSpan>& spans = recorder.timeline().micro_batches()[0].layer_forward;
    EXPECT_GE(spans.front().begin, begin);
    EXPECT_LE(spans.back().end, end + 1e-9);  // sums of differences of the clock's readings
    for (std::size_t layer = 0; layer < layers; ++layer) {
        EXPECT_GE(spans[layer].seconds(), least[layer] - 1e-9);
        if (layer > 0) {
            EXPECT_EQ(spans[layer].begin, spans[layer - 1].end);
        }
    }
}

double thread_seconds() {
    timespec used{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

void use_processor(double seconds) {
    const double until = thread_seconds() + seconds;
    while (thread_seconds() < until) {
    }
}

TEST(StepTimeline, TransferCallsCountByTheirProcessorTimeAndComputationByWhatItDidNotGet) {
    constexpr double used = 2e-4, away = 2e-3, rounding = 1e-9;
    constexpr double clocks_differ = 1e-5;  // by the rate at which the steady clock is corrected
    const auto device = make_cpu_device(1);
    const std::vector<std::int64_t> hidden = {3};
    const Graph graph(build_mlp({4}, hidden, 2), *device, DType::f32, 1);
    StepRecorder recorder(graph, 1);
    recorder.begin_step(0);
    const double begin = recorder.now(), cpu = thread_seconds();
    for (int call = 0; call < 2; ++call) {
        recorder.transfer_call_begins();
        use_processor(used);
        recorder.transfer_call_ends();
        use_processor(used);  // not in a call
    }
    recorder.compute_begins();
    use_processor(used);
    std::this_thread::sleep_for(
        std::chrono::duration<double>(away));  // what another program on the core does
    recorder.compute_ends();
    const double passed = recorder.now() - begin, own = thread_seconds() - cpu;

    const StepTimeline& step = recorder.timeline();
    EXPECT_GE(step.transfer_cpu, 2 * used - rounding);
    EXPECT_LE(step.transfer_cpu, own - 3 * used + rounding);
    EXPECT_GE(step.off_core, away - clocks_differ);
    EXPECT_LE(step.off_core, passed - used + clocks_differ);

    recorder.begin_step(0);
    EXPECT_EQ(recorder.timeline().transfer_cpu, 0);
    EXPECT_EQ(recorder.timeline().off_core, 0);

    recorder.leave_out_processor_time();
    recorder.compute_begins();
    recorder.transfer_call_begins();
    use_processor(used);
    recorder.transfer_call_ends();
    recorder.compute_ends();
    EXPECT_EQ(recorder.timeline().transfer_cpu, 0);
    EXPECT_EQ(recorder.timeline().off_core, 0);
}

}  // namespace
}  // namespace tutti
