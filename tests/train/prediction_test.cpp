#include "tutti/train/prediction.hpp"

#include <gtest/gtest.h>

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

// Sample i is (i, i mod 3, 7) with label i mod 2.
class CountingDataset final : public Dataset {
  public:
    explicit CountingDataset(std::int64_t samples, std::int64_t broken = -1) : broken_(broken) {
        info_.samples = samples;
        info_.sample_shape = {features};
        info_.classes = classes;
    }
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
            labels[i] = index % 2;
        }
    }

  private:
    DatasetInfo info_;
    std::int64_t broken_;
};

// Keeps what it is given.
struct MemoryWriter final : PredictionWriter {
    void append(const PredictionRows& rows) override {
        if (static_cast<std::int64_t>(labels.size() + rows.labels.size()) > room)
            throw RunError("the writer is full");
        labels.insert(labels.end(), rows.labels.begin(), rows.labels.end());
        predictions.insert(predictions.end(), rows.predictions.begin(), rows.predictions.end());
        const auto doubles = [](std::span<const std::byte> bytes, std::vector<double>& to) {
            const auto* values = reinterpret_cast<const double*>(bytes.data());
            to.insert(to.end(), values, values + bytes.size() / sizeof(double));
        };
        doubles(rows.logits, logits);
        doubles(rows.embeddings, embeddings);
    }
    void commit() override {}
    std::int64_t room = 1000;
    std::vector<std::int64_t> labels, predictions;
    std::vector<double> logits, embeddings;
};

struct Pass {
    std::int64_t samples = 10, batch = 2;
    std::int64_t broken = -1;
    bool with_logits = true;
    std::size_t gather_bytes = std::size_t{1} << 20;

    // hidden = relu(I·x), logits = (h0, h1): the first hidden layer passes the three features on.
    PredictionCounts run(Communicator& communicator, PredictionWriter* writer) const {
        const auto device = make_cpu_device(1);
        const CountingDataset data(samples, broken);
        GraphSpec spec({features});
        const NodeId first = spec.add("fc1", make_linear({features}, features, false), {0});
        const NodeId relu = spec.add("relu", make_relu({features}), {first});
        spec.add("fc2", make_linear({features}, classes, false), {relu});
        const Embedding embedding = keep_embedding(spec);
        Graph graph(std::move(spec), *device, DType::f64, batch);
        const auto tensor = [](const char* name, const Shape& shape, std::vector<double> values) {
            NamedTensor result{name, DType::f64, shape, {}};
            const auto bytes = std::as_bytes(std::span(values));
            result.bytes.assign(bytes.begin(), bytes.end());
            return result;
        };
        const std::vector<NamedTensor> weights = {
            tensor("fc1.weight", {3, 3}, {255, 0, 0, 0, 255, 0, 0, 0, 255}),
            tensor("fc2.weight", {2, 3}, {0, 0, 0.25, 0.5, 0, 0})};
        graph.load(weights, "the test");
        BatchStage stage(*device, data.info(), {}, DType::f64, batch);
        Loader loader(data, batch, 0, 1);
        PredictionFormat format{samples, DType::f64, with_logits ? classes : 0, features};
        return predict({.graph = graph,
                        .device = *device,
                        .stage = stage,
                        .dataset = data,
                        .loader = loader,
                        .communicator = communicator,
                        .format = format,
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
        writer.append({labels.first(2), predictions.first(2), bytes.first(16), {}});
        writer.append({labels.subspan(2), predictions.subspan(2), bytes.subspan(16), {}});
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
