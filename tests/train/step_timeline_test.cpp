#include "tutti/train/step_timeline.hpp"

#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

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

/// A device that is at each mark so many seconds behind the last one as the test says, and begins then.
class SlowMarks final : public DeviceMarks {
  public:
    explicit SlowMarks(std::vector<double> apart) : apart_(std::move(apart)) {}
    void clear() override { set_ = 0; }
    std::size_t set() override {
        if (set_ == 0) passed_ = {Clock::now()};
        if (set_ > 0)
            passed_.push_back(passed_.back() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(apart_.at(set_ - 1))));
        return set_++;
    }
    void wait() override {
        ++waits_;
        std::this_thread::sleep_until(passed_.back());
    }
    Clock::time_point passed(std::size_t mark) const override { return passed_.at(mark); }
    std::size_t count() const { return set_; }
    int waits() const { return waits_; }

  private:
    std::vector<double> apart_;
    std::vector<Clock::time_point> passed_;
    std::size_t set_ = 0;
    int waits_ = 0;
};

// The host issues a step at once; the device takes 1 to 7 ms for its parts.
TEST(StepTimeline, WithMarksTimesAreTheDevices) {
    const auto device = make_cpu_device(1);
    const std::vector<std::int64_t> hidden = {3};
    const Graph graph(build_mlp({4}, hidden, 2), *device, DType::f32, 1);
    StepRecorder recorder(graph, 1);
    // Forward of three layers; of backward the last layer's parameter, its end, the next layer, the first
    // one's parameter and end, and the end of all.
    auto made = std::make_unique<SlowMarks>(
        std::vector<double>{0.001, 0.002, 0.003, 0.0, 0.004, 0.001, 0.002, 0.005, 0.001, 0.0});
    const SlowMarks& marks = *made;
    recorder.use(std::move(made));
    recorder.begin_step(2);
    recorder.begin_micro_batch();
    for (std::size_t layer = 0; layer < 3; ++layer) {
        recorder.forward_begins(layer);
        recorder.forward_ends(layer);
    }
    for (std::size_t layer = 3; layer-- > 0;) {
        recorder.backward_begins(layer);
        if (layer != 1) {
            const std::size_t parameter = layer == 2 ? 0 : 3, bucket = layer == 2 ? 0 : 1;
            recorder.parameter_ready(parameter);
            recorder.bucket_ready(bucket, parameter);
            recorder.bucket_issued(bucket);
        }
        recorder.backward_ends(layer);
    }
    recorder.compute_begins();
    recorder.compute_ends();
    recorder.bucket_done(0);
    EXPECT_EQ(marks.count(), 11U);
    StepTimeline& step = recorder.timeline();
    step.optimizer = {recorder.now(), recorder.now() + 1e-9};
    EXPECT_EQ(marks.waits(), 0);
    recorder.end_step();
    EXPECT_EQ(marks.waits(), 1);

    const MicroBatchTimes& times = step.micro_batches()[0];
    const double begin = times.layer_forward[0].begin;
    const auto expect_span = [&](const TimeSpan& span, double from, double to) {
        EXPECT_NEAR(span.begin - begin, from, 1e-6);
        EXPECT_NEAR(span.end - begin, to, 1e-6);
    };
    expect_span(times.layer_forward[0], 0, 0.001);
    expect_span(times.layer_forward[1], 0.001, 0.003);
    expect_span(times.layer_forward[2], 0.003, 0.006);
    expect_span(times.layer_backward[2], 0.006, 0.011);
    expect_span(times.layer_backward[1], 0.011, 0.013);
    expect_span(times.layer_backward[0], 0.013, 0.019);
    EXPECT_NEAR(step.parameter_ready[0] - begin, 0.010, 1e-6);
    EXPECT_NEAR(step.parameter_ready[3] - begin, 0.018, 1e-6);
    EXPECT_EQ(step.buckets[0].ready, step.parameter_ready[0]);
    EXPECT_EQ(step.buckets[1].ready, step.parameter_ready[3]);
    for (const BucketTimes& bucket : step.buckets) EXPECT_EQ(bucket.issued, bucket.ready);
    // The host thinks that it saw the end of the first, which had not begun; the second is under way.
    EXPECT_GE(step.buckets[0].done, step.buckets[0].issued);
    EXPECT_EQ(step.buckets[1].done, 0);
    EXPECT_NEAR(step.backward_end() - begin, 0.019, 1e-6);
    EXPECT_GE(step.communication.begin, step.backward_end());
    EXPECT_GE(step.optimizer.begin, step.backward_end());
    EXPECT_GE(step.seconds, step.backward_end());

    // What the device has recorded has no marks, and nobody waits for it.
    recorder.begin_step(1);
    recorder.begin_micro_batch();
    recorder.leave_out_marks();
    recorder.compute_ends();
    recorder.end_step();
    EXPECT_EQ(marks.count(), 0U);
    EXPECT_EQ(marks.waits(), 1);
}

TEST(StepTimeline, WithMarksMicroBatchesLieOneBehindTheOther) {
    const auto device = make_cpu_device(1);
    const std::vector<std::int64_t> hidden = {3};
    const Graph graph(build_mlp({4}, hidden, 2), *device, DType::f32, 1);
    StepRecorder recorder(graph, 2);
    recorder.use(std::make_unique<SlowMarks>(std::vector<double>(4, 0.005)));
    recorder.begin_step(0);
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        MicroBatchTimes& times = recorder.begin_micro_batch();
        // All of it issued at once.
        const double now = recorder.now();
        times.data = times.forward = times.backward = {now, now};
        recorder.backward_begins(2);
        recorder.compute_ends();
    }
    recorder.end_step();
    double before = 0;
    for (const MicroBatchTimes& times : recorder.timeline().micro_batches()) {
        for (const TimeSpan& span : {times.data, times.forward, times.backward}) {
            EXPECT_GE(span.begin, before);
            EXPECT_GE(span.end, span.begin);
            before = span.end;
        }
    }
    EXPECT_GE(before, 0.015 - 1e-6);
    EXPECT_GE(recorder.timeline().seconds, before);
}

}  // namespace
}  // namespace tutti
