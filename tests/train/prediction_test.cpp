#include "tutti/train/prediction.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "support/error_message.hpp"
#include "support/thread_communicator.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"

namespace tutti {
namespace {

constexpr std::int64_t features = 3, classes = 2;

/// What the samples have, and the model gives: classes; outputs, of which the targets are known or not.
enum class Wanted { classes, targets, outputs };

/// Of a model for regression. Three, so that rows of f32 targets and f64 outputs need padding.
constexpr std::int64_t outputs = 3;

// Sample i is (i, i mod 3, 7) with label i mod 2, or with the targets (i + 0.25, −i, 5 i mod 11).
class CountingDataset final : public Dataset {
  public:
    explicit CountingDataset(std::int64_t samples, std::int64_t broken = -1, Wanted wanted = Wanted::classes)
        : broken_(broken) {
        info_.samples = samples;
        info_.sample_shape = {features};
        info_.classes = wanted == Wanted::classes ? classes : 0;
        info_.labelled = wanted == Wanted::classes;
        if (wanted != Wanted::targets) return;
        info_.targets = outputs;
        for (std::int64_t i = 0; i < samples; ++i) {
            const auto of_sample = targets_of(i);
            targets_.insert(targets_.end(), of_sample.begin(), of_sample.end());
        }
    }
    static std::array<float, outputs> targets_of(std::int64_t i) {
        return {static_cast<float>(i) + 0.25F, -static_cast<float>(i), static_cast<float>(5 * i % 11)};
    }
    std::span<const float> targets() const override { return targets_; }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "counting"; }
    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> labels) const override {
        for (std::size_t i = 0; i < indices.size(); ++i) {
            const std::int64_t index = indices[i];
            if (index == broken_) throw DataError("counting: sample " + std::to_string(index) + " is broken");
            samples[3 * i] = static_cast<std::byte>(index);
            samples[3 * i + 1] = static_cast<std::byte>(index % 3);
            samples[3 * i + 2] = std::byte{7};
            labels[i] = info_.labelled ? index % 2 : 0;
        }
    }

  private:
    DatasetInfo info_;
    std::int64_t broken_;
    std::vector<float> targets_;
};

struct NumberedPaths final : SamplePaths {
    explicit NumberedPaths(std::int64_t count, std::int64_t unreadable = -1)
        : count_(count), unreadable_(unreadable) {}
    std::int64_t samples() const override { return count_; }
    std::vector<std::string> read(std::int64_t first, std::int64_t count) const override {
        std::vector<std::string> texts;
        for (std::int64_t i = first; i < first + count; ++i) {
            if (i == unreadable_) throw DataError("path " + std::to_string(i) + " is broken");
            texts.push_back("clip " + std::to_string(i));
        }
        return texts;
    }

  private:
    std::int64_t count_, unreadable_;
};

// Keeps what it is given.
struct MemoryWriter final : PredictionWriter {
    void append(const PredictionRows& rows) override {
        if (static_cast<std::int64_t>(labels.size() + rows.labels.size()) > room)
            throw RunError("the writer is full");
        ++pieces;
        count += rows.count;
        labels.insert(labels.end(), rows.labels.begin(), rows.labels.end());
        predictions.insert(predictions.end(), rows.predictions.begin(), rows.predictions.end());
        const auto doubles = [](std::span<const std::byte> bytes, std::vector<double>& to) {
            const auto* values = reinterpret_cast<const double*>(bytes.data());
            to.insert(to.end(), values, values + bytes.size() / sizeof(double));
        };
        doubles(rows.logits, logits);
        doubles(rows.embeddings, embeddings);
        doubles(rows.outputs, outputs);
        const auto* values = reinterpret_cast<const float*>(rows.targets.data());
        targets.insert(targets.end(), values, values + rows.targets.size() / sizeof(float));
        paths.insert(paths.end(), rows.paths.begin(), rows.paths.end());
    }
    void commit() override {}
    std::int64_t room = 1000;
    std::vector<std::int64_t> labels, predictions;
    std::vector<double> logits, embeddings, outputs;
    std::vector<float> targets;
    std::vector<std::string> paths;
    std::size_t pieces = 0, count = 0;
};

struct Pass {
    std::int64_t samples = 10, batch = 2;
    std::int64_t broken = -1;
    bool with_logits = true;
    std::size_t gather_bytes = std::size_t{1} << 20;
    Wanted wanted = Wanted::classes;
    bool with_embeddings = true;
    const SamplePaths* paths = nullptr;

    PredictionFormat format() const {
        PredictionFormat rows{.samples = samples, .dtype = DType::f64, .has_paths = paths != nullptr};
        rows.embedding = with_embeddings ? features : 0;
        if (wanted == Wanted::classes)
            rows.logits = with_logits ? classes : 0;
        else
            rows.outputs = outputs;
        rows.targets = wanted == Wanted::targets ? rows.outputs : 0;
        return rows;
    }

    // hidden = relu(I·x): the first hidden layer passes the three features on. Logits are (h2 / 4, h0 / 2),
    // outputs these and h1 − h0.
    PredictionCounts run(Communicator& communicator, PredictionWriter* writer) const {
        const auto device = make_cpu_device(1);
        const CountingDataset data(samples, broken, wanted);
        const std::int64_t width = wanted == Wanted::classes ? classes : outputs;
        GraphSpec spec({features});
        const NodeId first = spec.add("fc1", make_linear({features}, features, false), {0});
        const NodeId relu = spec.add("relu", make_relu({features}), {first});
        spec.add("fc2", make_linear({features}, width, false), {relu});
        const Embedding embedding = keep_embedding(spec);
        Graph graph(std::move(spec), *device, DType::f64, batch);
        const auto tensor = [](const char* name, const Shape& shape, std::vector<double> values) {
            NamedTensor result{name, DType::f64, shape, {}};
            const auto bytes = std::as_bytes(std::span(values));
            result.bytes.assign(bytes.begin(), bytes.end());
            return result;
        };
        std::vector<double> last{0, 0, 0.25, 0.5, 0, 0, -1, 1, 0};
        last.resize(static_cast<std::size_t>(width * features));
        const std::vector<NamedTensor> weights = {
            tensor("fc1.weight", {3, 3}, {255, 0, 0, 0, 255, 0, 0, 0, 255}),
            tensor("fc2.weight", {width, 3}, last)};
        graph.load(weights, "the test");
        BatchStage stage(*device, data.info(), {}, DType::f64, batch);
        Loader loader(data, batch, 0, 1);
        const PredictionFormat rows = format();
        return predict({.graph = graph,
                        .device = *device,
                        .stage = stage,
                        .dataset = data,
                        .loader = loader,
                        .communicator = communicator,
                        .format = rows,
                        .embedding = &embedding,
                        .writer = communicator.rank() == 0 ? writer : nullptr,
                        .paths = communicator.rank() == 0 ? paths : nullptr,
                        .batch_size = batch,
                        .seed = 0,
                        .gather_bytes = gather_bytes});
    }
};

// The pixels pass through float32: (i / 255) · 255 is near i.
void expect_rows(const MemoryWriter& writer, std::int64_t samples, bool with_logits) {
    ASSERT_EQ(writer.labels.size(), static_cast<std::size_t>(samples));
    ASSERT_EQ(writer.logits.size(), static_cast<std::size_t>(with_logits ? 2 * samples : 0));
    for (std::int64_t i = 0; i < samples; ++i) {
        const auto at = static_cast<std::size_t>(i);
        EXPECT_EQ(writer.labels[at], i % 2);
        EXPECT_EQ(writer.predictions[at], i >= 4 ? 1 : 0) << "0.5 i > 1.75 from i = 4 on";
        EXPECT_NEAR(writer.embeddings[3 * at], static_cast<double>(i), 1e-5);
        EXPECT_NEAR(writer.embeddings[3 * at + 1], static_cast<double>(i % 3), 1e-5);
        EXPECT_NEAR(writer.embeddings[3 * at + 2], 7.0, 1e-5);
        if (!with_logits) continue;
        EXPECT_NEAR(writer.logits[2 * at], 1.75, 1e-5);
        EXPECT_NEAR(writer.logits[2 * at + 1], 0.5 * static_cast<double>(i), 1e-5);
    }
}

void expect_regression_rows(const MemoryWriter& writer, const Pass& pass) {
    const auto samples = static_cast<std::size_t>(pass.samples);
    EXPECT_EQ(writer.count, samples);
    EXPECT_TRUE(writer.labels.empty());
    EXPECT_TRUE(writer.predictions.empty());
    EXPECT_TRUE(writer.logits.empty());
    ASSERT_EQ(writer.outputs.size(), 3 * samples);
    ASSERT_EQ(writer.targets.size(), pass.wanted == Wanted::targets ? 3 * samples : 0);
    ASSERT_EQ(writer.embeddings.size(), pass.with_embeddings ? 3 * samples : 0);
    for (std::size_t i = 0; i < samples; ++i) {
        const auto index = static_cast<std::int64_t>(i);
        const auto number = static_cast<double>(i), rest = static_cast<double>(i % 3);
        EXPECT_NEAR(writer.outputs[3 * i], 1.75, 1e-5);
        EXPECT_NEAR(writer.outputs[3 * i + 1], 0.5 * number, 1e-5);
        EXPECT_NEAR(writer.outputs[3 * i + 2], rest - number, 1e-5);
        for (std::size_t k = 0; k < 3 && !writer.targets.empty(); ++k)
            EXPECT_EQ(writer.targets[3 * i + k], CountingDataset::targets_of(index)[k]);
        if (!pass.with_embeddings) continue;
        EXPECT_NEAR(writer.embeddings[3 * i], number, 1e-5);
        EXPECT_NEAR(writer.embeddings[3 * i + 1], rest, 1e-5);
        EXPECT_NEAR(writer.embeddings[3 * i + 2], 7.0, 1e-5);
    }
}

class PredictRanks : public ::testing::TestWithParam<int> {};

TEST_P(PredictRanks, RowsComeInTheOrderOfTheDataWhateverTravelsAtOnce) {
    // 10 and 11: even and uneven tails; 1: most ranks have nothing. One byte: a row of each rank at a time.
    for (const std::int64_t samples : {0, 1, 10, 11, 25})
        for (const std::size_t gather : {std::size_t{1}, std::size_t{1} << 20}) {
            MemoryWriter writer;
            Pass pass{.samples = samples, .batch = 3, .gather_bytes = gather};
            pass.with_logits = samples != 11;
            test::run_on_threads(GetParam(), [&](Communicator& communicator) {
                const PredictionCounts counts = pass.run(communicator, &writer);
                EXPECT_EQ(counts.samples, samples);
                std::int64_t correct = 0;
                for (std::int64_t i = 0; i < samples; ++i) correct += i % 2 == (i >= 4 ? 1 : 0);
                EXPECT_EQ(counts.correct, correct);
            });
            expect_rows(writer, samples, pass.with_logits);
        }
}

TEST_P(PredictRanks, OutputsAndTargetsOfEachSampleComeInTheOrderOfTheData) {
    // A row has 12 bytes of targets and 24 of outputs, with the embedding 24 more: 40 or 64. One byte for
    // each rank: a row of each at a time; 150: of a batch of 5 two or three, then the rest.
    const auto ranks = static_cast<std::size_t>(GetParam());
    for (const std::int64_t samples : {0, 1, 10, 11, 25})
        for (const std::size_t gather : {std::size_t{1}, std::size_t{150}, std::size_t{1} << 20})
            for (const bool with_embeddings : {false, true})
                for (const Wanted wanted : {Wanted::targets, Wanted::outputs}) {
                    SCOPED_TRACE(testing::Message() << samples << " samples, " << gather << " bytes, "
                                                    << (with_embeddings ? "with" : "no") << " embeddings");
                    MemoryWriter writer;
                    const Pass pass{.samples = samples,
                                    .batch = 5,
                                    .gather_bytes = gather * ranks,
                                    .wanted = wanted,
                                    .with_embeddings = with_embeddings};
                    test::run_on_threads(GetParam(), [&](Communicator& communicator) {
                        const PredictionCounts counts = pass.run(communicator, &writer);
                        EXPECT_EQ(counts.samples, samples);
                        EXPECT_EQ(counts.correct, 0);
                    });
                    expect_regression_rows(writer, pass);
                    if (samples == 25 && gather == 1) {
                        EXPECT_EQ(writer.pieces, (25 + ranks - 1) / ranks);
                    }
                }
}

TEST_P(PredictRanks, RowsHaveThePathsOfTheirSamples) {
    for (const std::size_t gather : {std::size_t{1}, std::size_t{1} << 20}) {
        MemoryWriter writer;
        const NumberedPaths paths(25);
        const Pass pass{.samples = 25, .batch = 3, .gather_bytes = gather, .paths = &paths};
        test::run_on_threads(GetParam(),
                             [&](Communicator& communicator) { pass.run(communicator, &writer); });
        EXPECT_EQ(writer.paths, paths.read(0, 25));
        expect_rows(writer, 25, true);
    }
    MemoryWriter writer;
    const NumberedPaths broken(25, 24);
    const Pass pass{.samples = 25, .paths = &broken};
    test::run_on_threads(GetParam(), [&](Communicator& communicator) {
        EXPECT_CONTAINS(test::message_of<AgreedError>([&] { pass.run(communicator, &writer); }),
                        "path 24 is broken");
    });
}

TEST_P(PredictRanks, ASampleThatCannotBeReadStopsAllRanksWithItsError) {
    MemoryWriter writer;
    const Pass pass{.samples = 20, .batch = 2, .broken = 9};
    test::run_on_threads(GetParam(), [&](Communicator& communicator) {
        try {
            pass.run(communicator, &writer);
            ADD_FAILURE() << "no error";
        } catch (const AgreedError& error) {
            EXPECT_EQ(error.code(), ExitCode::data);
            EXPECT_NE(std::string(error.what()).find("sample 9 is broken"), std::string::npos)
                << error.what();
        }
    });
}

TEST_P(PredictRanks, AWriterThatFailsStopsAllRanksWithItsError) {
    // Also when it fails at the last rows, after which nothing travels any more.
    for (const std::int64_t room : {0, 7, 19}) {
        MemoryWriter writer;
        writer.room = room;
        const Pass pass{.samples = 20, .batch = 2};
        test::run_on_threads(GetParam(), [&](Communicator& communicator) {
            try {
                pass.run(communicator, &writer);
                ADD_FAILURE() << "no error";
            } catch (const AgreedError& error) {
                EXPECT_EQ(error.code(), ExitCode::failed);
                EXPECT_NE(std::string(error.what()).find("the writer is full"), std::string::npos);
            }
        });
    }
}

INSTANTIATE_TEST_SUITE_P(Ranks, PredictRanks, ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace tutti
