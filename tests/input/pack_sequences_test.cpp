// Parts of videos as sequences of seconds.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tutti/input/pack.hpp"
#include "tutti/input/sample_paths.hpp"
#include "video_feature_files.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

using Row = std::vector<float>;

class PackSequences : public test::PackVideoFeatures {
  protected:
    void SetUp() override {
        options_.labels = at("list.json");
        options_.folders = {at("seen"), at("heard")};
        options_.output = at("out.h5");
    }
    /// Of a sample.
    static std::vector<Row> steps(const Dataset& data, std::int64_t sample) {
        const Shape& shape = data.info().sample_shape;
        std::vector<float> all(static_cast<std::size_t>(shape.count()));
        std::vector<std::int64_t> label(1);
        data.read(std::vector{sample}, std::as_writable_bytes(std::span(all)), label);
        std::vector<Row> rows;
        for (auto at = all.begin(); at != all.end(); at += shape[1]) rows.emplace_back(at, at + shape[1]);
        return rows;
    }
    static Row targets(const Dataset& data, std::int64_t sample) {
        const auto of_sample = data.targets().subspan(static_cast<std::size_t>(sample * data.info().targets),
                                                      static_cast<std::size_t>(data.info().targets));
        return {of_sample.begin(), of_sample.end()};
    }
    std::vector<std::string> paths() const {
        const auto stored = open_sample_paths({&options_.output, 1});
        return stored->read(0, stored->samples());
    }
    PackSequencesOptions options_;
};

TEST_F(PackSequences, PartsBecomeSamplesWithTheirSecondsAsSteps) {
    write_videos();
    std::vector<std::string> from;
    options_.from = [&from](const std::vector<std::string>& where) {
        from.push_back(where.at(0) + " " + where.at(1));
    };
    SequenceCounts counts;
    const DatasetInfo info = pack_sequences(options_, {}, &counts);
    EXPECT_EQ(info.sample_shape, (Shape{3, 4}));
    EXPECT_EQ(from, (std::vector<std::string>{"b 2", "a 0", "b 0"}));
    EXPECT_EQ(counts.seconds, 6);
    EXPECT_EQ(counts.padding, 3);
    EXPECT_EQ(counts.missed, 1);  // [3.5, 4)
    const auto data = open_hdf5_dataset(options_.output);
    EXPECT_EQ(data->info().samples, 3);
    EXPECT_EQ(data->info().sample_shape, (Shape{3, 4}));
    EXPECT_EQ(data->info().dtype, DType::f32);
    EXPECT_TRUE(data->info().has_segments());
    EXPECT_EQ(data->info().targets, 6);
    EXPECT_EQ(describe_wanted(data->info()), "segments in 3 seconds");
    EXPECT_TRUE(data->info().mean.empty());
    const Row none{0, 0, 0, 0};
    EXPECT_EQ(steps(*data, 0),
              (std::vector<Row>{{202, 202.1F, 402, 1}, {203, 203.1F, 403, 1}, {204, 204.1F, 404, 1}}));
    // A file ends a second early.
    EXPECT_EQ(steps(*data, 1), (std::vector<Row>{{100, 100.1F, 300, 1}, {101, 101.1F, 301, 1}, none}));
    EXPECT_EQ(steps(*data, 2), (std::vector<Row>{{200, 200.1F, 400, 1}, none, none}));
    EXPECT_EQ(targets(*data, 0), (Row{-1, -1, -1, -1, -1, -1}));
    EXPECT_EQ(targets(*data, 1), (Row{0, 0.5, 0, 1, -1, -1}));
    EXPECT_EQ(targets(*data, 2), (Row{-1, -1, -1, -1, -1, -1}));
    EXPECT_EQ(paths(), (std::vector<std::string>{"b 2-5", "a", "b 0-1"}));
}

TEST_F(PackSequences, NormalisationLeavesOutWhatSaysThatAStepExists) {
    write_videos();
    options_.mean = {1, 2, 3};
    options_.std = {1, 1, 2};
    pack_sequences(options_);
    EXPECT_EQ(open_hdf5_dataset(options_.output)->info().mean, (Row{1, 2, 3, 0}));
    EXPECT_EQ(open_hdf5_dataset(options_.output)->info().std, (Row{1, 1, 2, 1}));
    options_.mean = {4};
    options_.std = {0.5};
    EXPECT_EQ(pack_sequences(options_).mean, (Row{4, 4, 4, 0}));
    options_.mean = options_.std = {1, 1, 1, 1};
    EXPECT_EQ(
        refusal([&] { pack_sequences(options_); }),
        "2 --mean and --std have 4 numbers, but samples have 3 features; give one number, or 3 of each");
}

TEST_F(PackSequences, ALengthIsKeptOrThePartIsNamedOrLeftOut) {
    write_videos();
    options_.length = 5;
    EXPECT_EQ(pack_sequences(options_).sample_shape, (Shape{5, 4}));
    EXPECT_EQ(steps(*open_hdf5_dataset(options_.output), 0).back(), (Row{0, 0, 0, 0}));
    options_.length = 2;
    const std::string said =
        at("list.json") +
        ": entry 1 (b): it has 3 seconds, more than the 2 of --length; give --length 3, make several entries "
        "of it, or leave such entries out with --skip-errors";
    EXPECT_EQ(refusal([&] { pack_sequences(options_); }), "4 " + said);
    std::vector<std::string> skipped;
    EXPECT_EQ(pack_sequences(options_, [&](const std::string& text) { skipped.push_back(text); }).samples, 2);
    EXPECT_EQ(skipped, std::vector<std::string>{said});
    // Its name says what is in the list, not what was packed of it.
    EXPECT_EQ(paths(), (std::vector<std::string>{"a", "b 0-1"}));
}

TEST_F(PackSequences, WithoutLabelsSegmentsAreNotRead) {
    write_videos();
    write("list.json", R"([{"youtube_id": "a", "timeRange": [0, 2]}])");
    options_.labelled = false;
    pack_sequences(options_);
    const auto data = open_hdf5_dataset(options_.output, mapped_limit, Labels::optional);
    EXPECT_EQ(data->info().targets, 0);
    EXPECT_EQ(describe_wanted(data->info()), "no labels");
    EXPECT_EQ(steps(*data, 0), (std::vector<Row>{{100, 100.1F, 300, 1}, {101, 101.1F, 301, 1}}));
}

TEST_F(PackSequences, PartsOfManyPiecesAreWholeForAnyNumberOfThreads) {
    // 20 bytes a step: the first part is of three pieces of 4 MiB, the padding of the second, too.
    constexpr std::int64_t length = 600000;
    const std::vector<float> all = values(0, length, 4);
    write_file("seen/a", all, 4);
    write("list.json", R"([{"youtube_id": "a", "timeRange": [0, 600000], "segments": [[599998.5, 600000]]},
                           {"youtube_id": "a", "timeRange": [7, 9], "segments": [[8, 9]]}])");
    options_.folders = {at("seen")};
    std::vector<std::vector<float>> files;
    for (const int threads : {1, 3}) {
        options_.threads = threads;
        EXPECT_EQ(pack_sequences(options_).sample_shape, (Shape{length, 5}));
        const auto data = open_hdf5_dataset(options_.output);
        std::vector<float> read(static_cast<std::size_t>(2 * length * 5));
        std::vector<std::int64_t> labels(2);
        data->read(std::vector<std::int64_t>{0, 1}, std::as_writable_bytes(std::span(read)), labels);
        std::vector<float> wanted;
        for (std::size_t i = 0; i < all.size(); i += 4) {
            wanted.insert(wanted.end(), all.begin() + static_cast<std::ptrdiff_t>(i),
                          all.begin() + static_cast<std::ptrdiff_t>(i + 4));
            wanted.push_back(1);
        }
        wanted.insert(wanted.end(), wanted.begin() + 7 * 5, wanted.begin() + 9 * 5);
        wanted.resize(read.size());
        EXPECT_TRUE(read == wanted);
        EXPECT_EQ(data->targets()[2 * (length - 1)], 0.5F);
        EXPECT_EQ(data->targets()[2 * (length + 1)], 0);
        EXPECT_EQ(data->targets()[2 * length], -1);
    }
}

TEST_F(PackSequences, WhatIsWrongIsNamedAndLeavesNothing) {
    write_videos();
    std::vector<float> bad = values(3, 3, 1);
    bad[1] = NAN;
    write_file("heard/a", bad, 1);
    EXPECT_EQ(refusal([&] { pack_sequences(options_); }).substr(0, 40 + at("").size()),
              ("4 " + at("heard/a.npy") + ": row 1, column 0 is nan, not a finite number")
                  .substr(0, 40 + at("").size()));
    EXPECT_FALSE(fs::exists(options_.output));
    std::vector<std::string> skipped;
    EXPECT_EQ(pack_sequences(options_, [&](const std::string& text) { skipped.push_back(text); }).samples, 2);
    EXPECT_EQ(skipped.size(), 1U);
    options_.output = at("heard/b.npy");
    EXPECT_EQ(refusal([&] { pack_sequences(options_); }).substr(0, 5), "2 -o ");
}

}  // namespace
}  // namespace tutti
