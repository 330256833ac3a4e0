#include "tutti/train/prediction.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/temp_dir.hpp"
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
    }
    void commit() override {}
    std::int64_t room = 1000;
    std::vector<std::int64_t> labels, predictions;
    std::vector<double> logits, embeddings, outputs;
    std::vector<float> targets;
    std::size_t pieces = 0, count = 0;
};

struct Pass {
    std::int64_t samples = 10, batch = 2;
    std::int64_t broken = -1;
    bool with_logits = true;
    std::size_t gather_bytes = std::size_t{1} << 20;
    Wanted wanted = Wanted::classes;
    bool with_embeddings = true;

    PredictionFormat format() const {
        const std::int64_t embedding = with_embeddings ? features : 0;
        if (wanted == Wanted::classes) return {samples, DType::f64, with_logits ? classes : 0, embedding};
        return {samples, DType::f64, 0, embedding, outputs, wanted == Wanted::targets};
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

class PredictionFile : public ::testing::Test {
  protected:
    test::TempDir dir_;
    std::string path(const std::string& name) const { return dir_.path() + "/" + name; }

    // Three rows in two pieces.
    const std::vector<std::int64_t> labels_{1, 0, 1}, predictions_{1, 1, 1};
    const std::vector<float> logits_{0.1F, -2.5F, 1e-30F, 3.0F, 16777216.0F, 0.3F};
    const PredictionFormat format_{3, DType::f32, 2, 0};
    const PredictionOrigin origin_{"run/step-1.h5", "abc", "data.h5", "model:\n  name: mlp\n"};

    void write(PredictionWriter& writer) const {
        const auto bytes = std::as_bytes(std::span(logits_));
        const std::span labels(labels_), predictions(predictions_);
        writer.append({2, labels.first(2), predictions.first(2), bytes.first(16), {}, {}, {}});
        writer.append({1, labels.subspan(2), predictions.subspan(2), bytes.subspan(16), {}, {}, {}});
    }
    std::size_t files() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(dir_.path()),
                                                      std::filesystem::directory_iterator()));
    }
};

TEST_F(PredictionFile, CsvHoldsTheShortestNumbersThatComeBack) {
    const auto writer = make_prediction_writer(path("out.csv"), format_, origin_);
    write(*writer);
    writer->commit();
    std::ostringstream text;
    text << std::ifstream(path("out.csv")).rdbuf();
    EXPECT_EQ(text.str(),
              "index,label,prediction,logit_0,logit_1\n"
              "0,1,1,0.1,-2.5\n"
              "1,0,1,1e-30,3\n"
              "2,1,1,16777216,0.3\n");
}

TEST_F(PredictionFile, OutputsOfRegressionStandBesideTheirTargets) {
    PredictionFormat format{2, DType::f32, 0, 0, 2, true, {"x", "say \"y\", please"}};
    const std::vector<float> outputs{0.5F, -2, 3, 4}, targets{1, 2, 0.1F, 8};
    const auto append = [&](const std::string& name) {
        const auto writer = make_prediction_writer(path(name), format, origin_);
        PredictionRows rows;
        rows.count = 2;
        rows.outputs = std::as_bytes(std::span(outputs));
        if (format.has_targets) rows.targets = std::as_bytes(std::span(targets));
        writer->append(rows);
        writer->commit();
    };
    const auto text_of = [&](const std::string& name) {
        std::ostringstream text;
        text << std::ifstream(path(name)).rdbuf();
        return text.str();
    };
    append("named.csv");
    EXPECT_EQ(text_of("named.csv"),
              "index,target_x,\"target_say \"\"y\"\", please\",output_x,\"output_say \"\"y\"\", please\"\n"
              "0,1,2,0.5,-2\n"
              "1,0.1,8,3,4\n");
    append("named.h5");
    const PredictionSummary summary = read_prediction_summary(path("named.h5"));
    EXPECT_TRUE(summary.regression);
    EXPECT_EQ(summary.samples, 2);
    ASSERT_EQ(summary.columns.size(), 2U);
    EXPECT_EQ(summary.columns[0].name, "outputs");
    EXPECT_EQ(summary.columns[1].name, "targets");
    EXPECT_EQ(summary.columns[1].shape, (Shape{2, 2}));

    format.has_targets = false;
    format.target_names.clear();
    append("bare.csv");
    EXPECT_EQ(text_of("bare.csv"), "index,output_0,output_1\n0,0.5,-2\n1,3,4\n");
}

TEST_F(PredictionFile, Hdf5ComesBackWithItsHashes) {
    const auto writer = make_prediction_writer(path("out.h5"), format_, origin_);
    write(*writer);
    EXPECT_FALSE(std::filesystem::exists(path("out.h5"))) << "before commit";
    writer->commit();
    EXPECT_TRUE(is_prediction_file(path("out.h5")));
    const PredictionSummary summary = read_prediction_summary(path("out.h5"));
    EXPECT_EQ(summary.samples, 3);
    EXPECT_EQ(summary.correct, 2);
    EXPECT_EQ(summary.origin.weights, "run/step-1.h5");
    EXPECT_EQ(summary.origin.config, origin_.config);
    ASSERT_EQ(summary.columns.size(), 3U);
    EXPECT_EQ(summary.columns[2].name, "logits");
    EXPECT_EQ(summary.columns[2].shape, (Shape{3, 2}));
    // hashlib.sha256(struct.pack("<6f", 0.1, -2.5, 1e-30, 3, 16777216, 0.3)).hexdigest()
    EXPECT_EQ(summary.columns[2].sha256, "77d7c8c85118d1b2bafc58d1f964982384bacd690cf422d82b5093732ca3ea36");
}

TEST_F(PredictionFile, DamageIsFound) {
    const auto writer = make_prediction_writer(path("out.h5"), format_, origin_);
    write(*writer);
    writer->commit();
    std::fstream file(path("out.h5"), std::ios::in | std::ios::out | std::ios::binary);
    std::string raw((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const std::string value(reinterpret_cast<const char*>(logits_.data()), 8);
    const auto place = raw.find(value);
    ASSERT_NE(place, std::string::npos);
    file.seekp(static_cast<std::streamoff>(place));
    file.put('\x7f');
    file.close();
    EXPECT_THROW(read_prediction_summary(path("out.h5")), DataError);
}

TEST_F(PredictionFile, WithoutCommitNothingIsLeftAndTheOldFileStays) {
    for (const char* name : {"out.csv", "out.h5"}) {
        std::ofstream(path(name)) << "old";
        { write(*make_prediction_writer(path(name), format_, origin_)); }
        std::string text;
        std::ifstream(path(name)) >> text;
        EXPECT_EQ(text, "old");
    }
    EXPECT_EQ(files(), 2U);
}

TEST_F(PredictionFile, ErrorsNameTheFile) {
    for (const char* name : {"nowhere/out.csv", "nowhere/out.h5"}) try {
            make_prediction_writer(path(name), format_, origin_);
            ADD_FAILURE() << "no error";
        } catch (const RunError& error) {
            EXPECT_NE(std::string(error.what()).find(name), std::string::npos);
        }
    EXPECT_THROW(make_prediction_writer(path("out.txt"), format_, origin_), UsageError);
    EXPECT_THROW(check_prediction_path("out"), UsageError);
    EXPECT_THROW(read_prediction_summary(path("missing.h5")), DataError);
    EXPECT_FALSE(is_prediction_file(path("missing.h5")));
}

TEST_F(PredictionFile, NoRowsAreAFileToo) {
    const PredictionFormat empty{0, DType::f64, 2, 3};
    for (const char* name : {"out.csv", "out.h5"})
        make_prediction_writer(path(name), empty, origin_)->commit();
    EXPECT_EQ(read_prediction_summary(path("out.h5")).samples, 0);
    EXPECT_EQ(read_prediction_summary(path("out.h5")).columns[3].shape, (Shape{0, 3}));
}

}  // namespace
}  // namespace tutti
