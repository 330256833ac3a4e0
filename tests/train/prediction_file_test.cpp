#include "tutti/train/prediction_file.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/error_message.hpp"
#include "support/files.hpp"
#include "support/temp_dir.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

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
        writer.append({2, labels.first(2), predictions.first(2), bytes.first(16), {}, {}, {}, {}, {}});
        writer.append({1, labels.subspan(2), predictions.subspan(2), bytes.subspan(16), {}, {}, {}, {}, {}});
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

TEST_F(PredictionFile, csv_is_known_by_its_first_column_also_where_its_name_is_quoted) {
    const auto known = [this](const PredictionFormat& format) {
        make_prediction_writer(path("out.csv"), format, origin_)->commit();
        return is_prediction_file(path("out.csv"));
    };
    for (const std::int64_t targets : {0, 2})
        EXPECT_TRUE(known({0, DType::f32, 0, 0, targets, 2, {"say \"x\", please", "y"}}));
    EXPECT_TRUE(known({0, DType::f32, 2, 0}));
    for (const char* other : {"index,path,\"x\"\n", "index,\"label\"\n", "index,line\n"}) {
        test::write_file(path("out.csv"), other);
        EXPECT_FALSE(is_prediction_file(path("out.csv"))) << other;
    }
}

TEST_F(PredictionFile, OutputsOfRegressionStandBesideTheirTargets) {
    PredictionFormat format{2, DType::f32, 0, 0, 2, 2, {"x", "say \"y\", please"}};
    const std::vector<float> outputs{0.5F, -2, 3, 4}, targets{1, 2, 0.1F, 8};
    const auto append = [&](const std::string& name) {
        const auto writer = make_prediction_writer(path(name), format, origin_);
        PredictionRows rows;
        rows.count = 2;
        rows.outputs = std::as_bytes(std::span(outputs));
        if (format.targets > 0) rows.targets = std::as_bytes(std::span(targets));
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

    format.targets = 0;
    format.target_names.clear();
    append("bare.csv");
    EXPECT_EQ(text_of("bare.csv"), "index,output_0,output_1\n0,0.5,-2\n1,3,4\n");
}

TEST_F(PredictionFile, OutputsMayBeOthersThanTheTargets) {
    PredictionFormat format{.samples = 1, .outputs = 2, .targets = 1};
    format.target_names = {"there"};
    format.output_names = {"probability", "logit"};
    const std::vector<float> outputs{0.5F, -2}, targets{1};
    PredictionRows rows;
    rows.count = 1;
    rows.outputs = std::as_bytes(std::span(outputs));
    rows.targets = std::as_bytes(std::span(targets));
    for (const char* name : {"out.csv", "out.h5"}) {
        const auto writer = make_prediction_writer(path(name), format, origin_);
        writer->append(rows);
        writer->commit();
    }
    std::ostringstream text;
    text << std::ifstream(path("out.csv")).rdbuf();
    EXPECT_EQ(text.str(), "index,target_there,output_probability,output_logit\n0,1,0.5,-2\n");
    const PredictionSummary summary = read_prediction_summary(path("out.h5"));
    ASSERT_EQ(summary.columns.size(), 2U);
    EXPECT_EQ(summary.columns[0].shape, (Shape{1, 2}));
    EXPECT_EQ(summary.columns[1].shape, (Shape{1, 1}));
}

TEST_F(PredictionFile, PlacesOnTheEarthAreInFullPrecision) {
    PredictionFormat format{.samples = 2, .outputs = 2, .targets = 2, .earth = 3};
    format.target_names = {"x", "y"};
    const std::vector<float> outputs{1, 2, 3, 4}, targets{5, 6, 7, 8};
    const std::vector<double> earth{41.123456789, -12.5, 100.25, -3, 179.75, std::nan("")};
    for (const char* name : {"out.csv", "out.h5"}) {
        const auto writer = make_prediction_writer(path(name), format, origin_);
        PredictionRows rows;
        rows.count = 2;
        rows.outputs = std::as_bytes(std::span(outputs));
        rows.targets = std::as_bytes(std::span(targets));
        rows.earth = std::as_bytes(std::span(earth));
        writer->append(rows);
        writer->commit();
    }
    EXPECT_EQ(test::read_file(path("out.csv")),
              "index,target_x,target_y,output_x,output_y,latitude,longitude,error_km\n"
              "0,5,6,1,2,41.123456789,-12.5,100.25\n1,7,8,3,4,-3,179.75,nan\n");
    const PredictionSummary summary = read_prediction_summary(path("out.h5"));
    ASSERT_EQ(summary.columns.size(), 3U);
    EXPECT_EQ(summary.columns[2].name, "earth");
    EXPECT_EQ(summary.columns[2].dtype, DType::f64);
    EXPECT_EQ(summary.columns[2].shape, (Shape{2, 3}));
}

TEST_F(PredictionFile, PathsAreAColumn) {
    PredictionFormat format{.samples = 2, .outputs = 1, .has_paths = true};
    const std::vector<float> outputs{0.5F, -2};
    const std::vector<std::string> paths{"a \"b\", c.png", ""};
    for (const char* name : {"out.csv", "out.h5"}) {
        const auto writer = make_prediction_writer(path(name), format, origin_);
        PredictionRows rows;
        rows.count = 2;
        rows.outputs = std::as_bytes(std::span(outputs));
        rows.paths = paths;
        writer->append(rows);
        writer->commit();
    }
    EXPECT_EQ(test::read_file(path("out.csv")), "index,path,output_0\n0,\"a \"\"b\"\", c.png\",0.5\n1,,-2\n");
    const PredictionSummary summary = read_prediction_summary(path("out.h5"));
    ASSERT_EQ(summary.columns.size(), 2U);
    EXPECT_EQ(summary.columns[1].name, "paths");
    EXPECT_EQ(summary.columns[1].shape, Shape{2});
    EXPECT_TRUE(summary.columns[1].text);
    // hashlib.sha256(b'a "b", c.png\0\0').hexdigest()
    EXPECT_EQ(summary.columns[1].sha256, "ea9b846c89e0396417583c96f8cc6fba5d9a7ad8b1825aef8f5f3aeb6a28ea54");
    std::string raw = test::read_file(path("out.h5"));
    raw[raw.find("c.png")] = 'd';
    test::write_file(path("out.h5"), raw);
    EXPECT_CONTAINS(test::message_of<DataError>([&] { read_prediction_summary(path("out.h5")); }),
                    "data set paths: its SHA-256 does not match");
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
