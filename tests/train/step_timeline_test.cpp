#include "tutti/train/step_timeline.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tutti
