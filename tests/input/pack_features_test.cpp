// Features of the seconds of videos as data sets.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tutti/input/pack.hpp"
#include "video_feature_files.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

class PackFeatures : public test::PackVideoFeatures {
  protected:
    void SetUp() override {
        options_.labels = at("list.json");
        options_.folders = {at("seen"), at("heard")};
        options_.output = at("out.h5");
    }
    static std::vector<std::vector<float>> rows(const Dataset& data) {
        std::vector<std::vector<float>> all;
        for (std::int64_t i = 0; i < data.info().samples; ++i) {
            all.emplace_back(static_cast<std::size_t>(data.info().sample_shape.count()));
            std::vector<std::int64_t> label(1);
            data.read(std::vector{i}, std::as_writable_bytes(std::span(all.back())), label);
            all.back().push_back(static_cast<float>(label[0]));
        }
        return all;
    }
    PackFeaturesOptions options_;
};

TEST_F(PackFeatures, SecondsBecomeSamplesWithAllKindsSideBySide) {
    write_videos();
    options_.mean = {1, 2, 3};
    options_.std = {1, 1, 2};
    for (const int threads : {1, 3}) {
        options_.threads = threads;
        pack_features(options_);
        const auto data = open_hdf5_dataset(options_.output);
        EXPECT_EQ(data->info().sample_shape, (Shape{3}));
        EXPECT_EQ(data->info().class_names, (std::vector<std::string>{"outside", "inside"}));
        EXPECT_EQ(data->info().mean, options_.mean);
        EXPECT_EQ(rows(*data), (std::vector<std::vector<float>>{{202, 202.1F, 402, 0},
                                                                {203, 203.1F, 403, 1},
                                                                {204, 204.1F, 404, 0},
                                                                {100, 100.1F, 300, 1},
                                                                {101, 101.1F, 301, 1},
                                                                {200, 200.1F, 400, 0}}));
    }
}

TEST_F(PackFeatures, PartsOfManyPiecesAreWhole) {
    // 600,000 samples of 16 bytes: three pieces of 4 MiB.
    const std::vector<float> all = values(0, 600000, 4);
    write_file("seen/a", all, 4);
    write("list.json", R"([{"youtube_id": "a", "timeRange": [1, 600000], "segments": [[599999, 600000]]}])");
    options_.folders = {at("seen")};
    options_.threads = 2;
    EXPECT_EQ(pack_features(options_).samples, 599999);
    const auto data = open_hdf5_dataset(options_.output);
    std::vector<std::int64_t> indices(599999), labels(599999);
    for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::int64_t>(i);
    std::vector<float> read(599999 * 4);
    data->read(indices, std::as_writable_bytes(std::span(read)), labels);
    EXPECT_EQ(read, std::vector<float>(all.begin() + 4, all.end()));
    EXPECT_EQ(count_labels(*data), (std::vector<std::int64_t>{599998, 1}));
    EXPECT_EQ(labels.back(), 1);
}

TEST_F(PackFeatures, SegmentsOfAnotherCountOfSecondsAreNamedOrLeftOut) {
    write_videos();
    write("list.json", R"([{"youtube_id": "b", "timeRange": [0, 3], "segments": [[1, 2]]},)"
                       R"( {"youtube_id": "a", "timeRange": [0, 3], "segments": [[600, 601], [3, 4]]}])");
    const std::string said =
        at("list.json") +
        ": entry 2 (a): none of its segments has a share in timeRange [0, 3]; give both in "
        "seconds of the video, or leave the segments out";
    EXPECT_EQ(refusal([&] { pack_features(options_); }), "4 " + said);
    std::vector<std::string> skipped, from;
    options_.from = [&from](const std::vector<std::string>& where) {
        from.push_back(where.at(0) + " " + where.at(1));
    };
    EXPECT_EQ(pack_features(options_, [&](const std::string& text) { skipped.push_back(text); }).samples, 3);
    EXPECT_EQ(skipped, std::vector<std::string>{said});
    EXPECT_EQ(from, (std::vector<std::string>{"b 0", "b 1", "b 2"}));
}

TEST_F(PackFeatures, PartsBehindOneThatIsLeftOutKeepTheirOwnSeconds) {
    write_videos();
    write("list.json", R"([{"youtube_id": "b", "timeRange": [0, 7], "segments": [[70, 71]]},)"
                       R"( {"youtube_id": "a", "timeRange": [0, 2], "segments": [[1, 2]]}])");
    std::vector<std::string> skipped;
    EXPECT_EQ(pack_features(options_, [&](const std::string& text) { skipped.push_back(text); }).samples, 2);
    EXPECT_EQ(skipped.size(), 1U);
}

TEST_F(PackFeatures, WithoutLabelsSegmentsAreNotRead) {
    write_videos();
    write("list.json", R"([{"youtube_id": "a", "timeRange": [0, 2]}])");
    options_.labelled = false;
    pack_features(options_);
    const auto data = open_hdf5_dataset(options_.output, mapped_limit, Labels::optional);
    EXPECT_FALSE(data->info().labelled);
    EXPECT_EQ(data->info().class_names, (std::vector<std::string>{"outside", "inside"}));
    EXPECT_EQ(rows(*data), (std::vector<std::vector<float>>{{100, 100.1F, 300, 0}, {101, 101.1F, 301, 0}}));
}

TEST_F(PackFeatures, WhatIsWrongIsNamedOrLeftOut) {
    const std::string remedy = "; extract the features again, or leave such entries out with --skip-errors";
    const auto refused = [&] { return refusal([&] { pack_features(options_); }); };
    write_videos();
    write_file("heard/a", values(3, 1, 1), 1);
    EXPECT_EQ(refused(), "4 " + at("heard/a.npy") + ": it holds 1 second, but " + at("list.json") +
                             ": entry 2 (a) wants 0 to 3" + remedy);
    EXPECT_FALSE(fs::exists(options_.output));
    std::vector<float> bad = values(3, 3, 1);
    bad[1] = NAN;
    write_file("heard/a", bad, 1);
    const std::string not_finite =
        at("heard/a.npy") + ": row 1, column 0 is nan, not a finite number of 32 bits" + remedy;
    EXPECT_EQ(refused(), "4 " + not_finite);
    EXPECT_FALSE(fs::exists(options_.output));
    std::vector<std::string> said;
    const auto note = [&said](const std::string& text) { said.push_back(text); };
    for (const int threads : {1, 2}) {
        options_.threads = threads;
        EXPECT_EQ(pack_features(options_, note).samples, 4);
        EXPECT_EQ(said, (std::vector<std::string>{not_finite}));
        said.clear();
    }
    write_file("heard/a", values(3, 6, 2), 2);
    EXPECT_EQ(refused(),
              "4 " + at("heard/a.npy") + " has 2 columns, but " + at("heard/b.npy") + " has 1" + remedy);
    fs::remove(at("heard/a.npy"));
    EXPECT_EQ(refused(), "4 " + at("heard/a.npy") +
                             ": No such file or directory; check the path, or extract the features");
    EXPECT_EQ(pack_features(options_, note).samples, 4);
    fs::remove(at("heard/b.npy"));
    EXPECT_EQ(refusal([&] { pack_features(options_, note); }),
              "4 " + at("list.json") + ": no entry could be read; check the files");
}

TEST_F(PackFeatures, AnOutputThatIsReadIsRefused) {
    write_videos();
    options_.output = at("heard/b.npy");
    EXPECT_EQ(refusal([&] { pack_features(options_); }),
              "2 -o " + at("heard/b.npy") + " would overwrite " + at("heard/b.npy") + "; give another name");
    options_.output = options_.labels;
    EXPECT_EQ(refusal([&] { pack_features(options_); }).substr(0, 5), "2 -o ");
}

}  // namespace
}  // namespace tutti
