// Data sets of sequences [N, T, F]: what other programs write, several files as one, random ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "hdf5_file.hpp"
#include "support/temp_dir.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/input/loader.hpp"
#include "tutti/input/random_dataset.hpp"
#include "tutti/input/target_summary.hpp"
#include "tutti/input/transforms.hpp"

namespace tutti {
namespace {

using test::data_error;
using test::Hdf5File;

/// A right file of sequences of two features, for tests to vary. Value k of all of them is begin + k, but the
/// last of a step, which is 1.
struct SequenceFile {
    hsize_t samples = 4, length = 3;
    float begin = 0;
    hid_t type = H5T_IEEE_F32LE;
    std::function<void(hid_t)> layout{};  ///< of /samples
    std::string kind = "segments";        ///< of /targets; empty: there are labels
    std::function<void(Hdf5File&)> change{};

    std::vector<float> values() const {
        std::vector<float> all(samples * length * 2);
        std::iota(all.begin(), all.end(), begin);
        for (std::size_t i = 1; i < all.size(); i += 2) all[i] = 1;
        return all;
    }
    std::vector<float> targets() const {
        std::vector<float> all(samples * length * 2);
        std::iota(all.begin(), all.end(), begin);
        return all;
    }
    void write(const std::string& path) const {
        Hdf5File file(path);
        file.text("tutti_schema", "samples");
        file.integer("tutti_schema_version", 1);
        const std::vector<float> all = values(), wanted = targets();
        file.table("samples", type, H5T_NATIVE_FLOAT, {samples, length, 2}, all.data(), layout);
        if (kind.empty()) {
            file.integer("classes", 2);
            const std::vector<std::int64_t> labels(samples, 1);
            file.table("labels", H5T_STD_I64LE, H5T_NATIVE_INT64, {samples}, labels.data());
        } else {
            file.text("target_kind", kind);
            file.table("targets", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {samples, 2 * length}, wanted.data());
        }
        if (change) change(file);
    }
};

class Sequences : public testing::Test {
  protected:
    std::string path(const std::string& name = "data.h5") const { return dir_.path() + "/" + name; }
    std::string refusal(const SequenceFile& file) const {
        file.write(path());
        return data_error([&] { open_hdf5_dataset(path()); });
    }
    static std::vector<float> read(const Dataset& data, const std::vector<std::int64_t>& indices) {
        std::vector<float> values(indices.size() *
                                  static_cast<std::size_t>(data.info().sample_shape.count()));
        std::vector<std::int64_t> labels(indices.size());
        data.read(indices, std::as_writable_bytes(std::span(values)), labels);
        return values;
    }

  private:
    test::TempDir dir_;
};

void by_sample(hid_t layout) {
    const hsize_t chunk[] = {1, 3, 2};
    H5Pset_chunk(layout, 3, chunk);
    H5Pset_deflate(layout, 6);
}
void in_chunks(hid_t layout) {
    const hsize_t chunk[] = {3, 2, 2};
    H5Pset_chunk(layout, 3, chunk);
}

TEST_F(Sequences, AreReadInEveryLayout) {
    for (const auto& layout : {std::function<void(hid_t)>{}, std::function<void(hid_t)>(by_sample),
                               std::function<void(hid_t)>(in_chunks)})
        for (const hid_t type : {H5T_IEEE_F32LE, H5T_IEEE_F32BE})
            for (const FileMemory memory : {FileMemory(mapped_limit), FileMemory(0)}) {
                SequenceFile{.type = type, .layout = layout}.write(path());
                const auto data = open_hdf5_dataset(path(), memory);
                EXPECT_EQ(data->info().sample_shape, (Shape{3, 2}));
                EXPECT_EQ(data->info().sample_bytes(), 24);
                EXPECT_EQ(data->info().target_kind, "segments");
                EXPECT_TRUE(data->info().has_segments());
                EXPECT_FALSE(data->info().labelled);
                EXPECT_EQ(data->targets()[7], 7);
                EXPECT_EQ(read(*data, {3, 1}), (std::vector<float>{18, 1, 20, 1, 22, 1, 6, 1, 8, 1, 10, 1}));
            }
}

TEST_F(Sequences, MayHaveLabelsOrNumbersAsTargets) {
    SequenceFile{.kind = ""}.write(path());
    EXPECT_EQ(count_labels(*open_hdf5_dataset(path())), (std::vector<std::int64_t>{0, 4}));
    SequenceFile{.change = [](Hdf5File& f) { f.remove_attribute("target_kind"); }}.write(path());
    const auto data = open_hdf5_dataset(path());
    EXPECT_EQ(describe_wanted(data->info()), "6 targets");
    EXPECT_FALSE(data->info().has_segments());
    EXPECT_NE(
        doubt_about_layout(data->info()).find("if they are grey images, store them as uint8 [N, H, W, 1]"),
        std::string::npos);
    SequenceFile{}.write(path());
    EXPECT_EQ(doubt_about_layout(open_hdf5_dataset(path())->info()), "");
}

TEST_F(Sequences, AValueThatIsNotFiniteIsNamedWithItsStep) {
    std::vector<float> values = SequenceFile{}.values();
    values[(2 * 3 + 2) * 2] = std::numeric_limits<float>::infinity();
    SequenceFile{.change = [&](Hdf5File& f) {
        f.remove_table("samples");
        f.table("samples", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {4, 3, 2}, values.data());
    }}.write(path());
    const auto data = open_hdf5_dataset(path());
    EXPECT_EQ(data_error([&] {
                  read(*data, {0, 2});
              }),
              path() +
                  ": sample 2 has the value inf as feature 0 of step 2; correct the value or leave the "
                  "sample out: features must be finite");
}

TEST_F(Sequences, WhatDoesNotFitIsRefused) {
    const auto expect_refused = [&](const std::function<void(Hdf5File&)>& change, const std::string& said) {
        const std::string text = refusal({.change = change});
        EXPECT_NE(text.find(said), std::string::npos) << text;
    };
    const auto change_kind = [](const char* kind) {
        return [kind](Hdf5File& f) {
            f.remove_attribute("target_kind");
            f.text("target_kind", kind);
        };
    };
    expect_refused(change_kind("boxes"), "'target_kind' is 'boxes', but this program knows only 'segments'");
    const auto replace = [](const char* name, const std::vector<hsize_t>& dims) {
        return [=](Hdf5File& f) {
            std::vector<float> values(1000);
            f.remove_table(name);
            f.table(name, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, dims, values.data());
        };
    };
    expect_refused(
        replace("targets", {4, 3}),
        "samples [3, 2] with 3 targets do not go with 'target_kind' 'segments', which is for "
        "sequences [T, F] with 2 T targets; pack it again with: trainer pack features --sequences");
    expect_refused(replace("samples", {4, 3}), "samples [3] with 6 targets do not go with");
    expect_refused(
        [](Hdf5File& f) {
            f.doubles("mean", {3, 0.5});
            f.doubles("std", {2, 1});
        },
        "the last feature of a sequence says whether a step exists, but 'mean' and 'std' end with 0.5 and 1, "
        "not 0 and 1");
    EXPECT_EQ(refusal({.change =
                           [](Hdf5File& f) {
                               f.doubles("mean", {3, 0});
                               f.doubles("std", {2, 1});
                           }}),
              "");
    EXPECT_NE(refusal({.type = H5T_IEEE_F64LE})
                  .find("convert the features of sequences, in h5py with "
                        "astype('float32')"),
              std::string::npos);
}

TEST_F(Sequences, SeveralFilesAreReadAsOne) {
    SequenceFile{.begin = 0}.write(path("a.h5"));
    SequenceFile{.samples = 2, .begin = 100}.write(path("b.h5"));
    const auto data = open_datasets(std::vector{path("a.h5"), path("b.h5")});
    EXPECT_EQ(data->info().samples, 6);
    EXPECT_EQ(data->info().target_kind, "segments");
    EXPECT_EQ(data->targets()[4 * 6], 100);
    EXPECT_EQ(read(*data, {5, 0}), (std::vector<float>{106, 1, 108, 1, 110, 1, 0, 1, 2, 1, 4, 1}));
    const auto refused = [&](const SequenceFile& other) {
        other.write(path("b.h5"));
        return data_error([&] { open_datasets(std::vector{path("a.h5"), path("b.h5")}); });
    };
    EXPECT_EQ(refused({.length = 5}),
              path("a.h5") + " has sequences of 3 steps, but " + path("b.h5") +
                  " of 5; files that are used together must agree; pack them again with the same --length");
    EXPECT_EQ(refused({.change = [](Hdf5File& f) { f.remove_attribute("target_kind"); }}),
              path("a.h5") + " has segments in 3 seconds, but " + path("b.h5") +
                  " has 6 targets; files that are used together must agree; use them apart");
}

/// Value `at` of a table becomes another.
std::function<void(Hdf5File&)> with_value(const char* table, std::size_t at, float value) {
    return [=](Hdf5File& file) {
        const hdf5::Handle data(H5Dopen2(file.id(), table, H5P_DEFAULT), H5Dclose);
        std::vector<float> all(4 * 3 * 2);
        ASSERT_GE(H5Dread(data.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data()), 0);
        all[at] = value;
        ASSERT_GE(H5Dwrite(data.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data()), 0);
    };
}

TEST_F(Sequences, TheLastFeatureSaysWhichStepsExist) {
    const auto read_failure = [&](std::size_t at, float value) {
        SequenceFile{.change = with_value("samples", at, value)}.write(path());
        const auto data = open_hdf5_dataset(path());
        return data_error([&] { read(*data, {0, 1, 2}); });
    };
    const std::string remedy = "; let it be 1 for the steps that exist, and 0 for padding behind them";
    // A gap: step 1 of sample 1 is no step, but 2 is.
    EXPECT_EQ(read_failure(9, 0),
              path() + ": sample 1 has the value 1 as the last feature of step 2, behind 0" + remedy);
    EXPECT_EQ(read_failure(1, 0.5F),
              path() + ": sample 0 has the value 0.5 as the last feature of step 0, behind 1" + remedy);
    EXPECT_EQ(read_failure(5, 2),
              path() + ": sample 0 has the value 2 as the last feature of step 2, behind 1" + remedy);
    SequenceFile{.change = with_value("samples", 11, 0)}.write(path());
    EXPECT_EQ(read(*open_hdf5_dataset(path()), {1})[5], 0) << "padding at the end";
}

TEST_F(Sequences, TargetsThatAreNoOffsetsAreRefused) {
    EXPECT_EQ(refusal({.change = with_value("targets", 9, 0)}),
              path() +
                  ": sample 1 has the targets (8, 0) for second 1; give how long before it its segment "
                  "begins, 0 or more, and how long behind it ends, more than 0, or (-1, -1) outside of "
                  "segments (data/README.md)");
    EXPECT_NE(refusal({.change = with_value("targets", 8, -1)}).find("the targets (-1, 9) for second 1"),
              std::string::npos);
}

TEST_F(Sequences, ALoaderGivesThemWithTheirTargets) {
    SequenceFile{}.write(path());
    const auto data = open_hdf5_dataset(path());
    for (const int workers : {0, 2}) {
        Loader loader(*data, 2, workers, 2);
        loader.start({2, 0, 3}, {{0, 1, 2, 0, 2}, {2, 1, 1, 2, 3}});
        const auto first = loader.next();
        ASSERT_TRUE(first);
        EXPECT_EQ(first->samples.size(), 48U);
        EXPECT_EQ(first->targets.size(), 12U);
        EXPECT_EQ(first->targets[0], 12);
        EXPECT_EQ(reinterpret_cast<const float*>(first->samples.data())[2], 14);
        const auto second = loader.next();
        ASSERT_TRUE(second);
        EXPECT_EQ(second->targets[5], 23);
    }
}

TEST_F(Sequences, TransformsOfPixelsAreRefused) {
    SequenceFile{}.write(path());
    const TransformSpec flip;
    try {
        transform_images(open_hdf5_dataset(path()), {&flip, 1}, 1, TransformUse::training);
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_NE(
            std::string(error.what()).find("has samples of shape [3, 2], but transforms are for images"),
            std::string::npos);
    }
}

TEST(RandomSequences, HaveASegmentEachAndStepsThatExist) {
    const auto data = make_random_sequences({8, 5}, 50, 1);
    EXPECT_EQ(data->info().sample_shape, (Shape{8, 5}));
    EXPECT_EQ(data->info().dtype, DType::f32);
    EXPECT_TRUE(data->info().has_segments());
    std::vector<float> values(2 * 40);
    std::vector<std::int64_t> labels(2, 7);
    data->read(std::vector<std::int64_t>{3, 49}, std::as_writable_bytes(std::span(values)), labels);
    EXPECT_EQ(labels, (std::vector<std::int64_t>{0, 0}));
    for (std::size_t i = 4; i < values.size(); i += 5) EXPECT_EQ(values[i], 1);
    EXPECT_NE(values[0], values[40]);
    const SegmentSummary summary = summarize_segments(*data);
    EXPECT_EQ(summary.samples, 50);
    EXPECT_EQ(summary.segments, 50);
    EXPECT_EQ(summary.shortest, 2);
    EXPECT_EQ(summary.longest, 2);
    EXPECT_EQ(summary.inside, 100);
    std::set<std::vector<float>> different;
    for (std::size_t i = 0; i < 50; ++i)
        different.emplace(data->targets().begin() + static_cast<std::ptrdiff_t>(16 * i),
                          data->targets().begin() + static_cast<std::ptrdiff_t>(16 * i + 16));
    EXPECT_EQ(different.size(), 7U);
    const auto same = make_random_sequences({8, 5}, 50, 1);
    EXPECT_TRUE(std::ranges::equal(same->targets(), data->targets()));
    EXPECT_EQ(summarize_segments(*make_random_sequences({1, 2}, 3, 1)).inside, 3);
}

TEST(RandomSequences, RefuseWhatAreNoSequences) {
    EXPECT_THROW(make_random_sequences({8}, 1, 0), UsageError);
    EXPECT_THROW(make_random_sequences({8, 1}, 1, 0), UsageError);
    EXPECT_THROW(make_random_sequences({0, 2}, 1, 0), UsageError);
    EXPECT_THROW(make_random_sequences({8, 2}, 0, 0), UsageError);
    EXPECT_THROW(make_random_sequences({1 << 20, 2}, 1 << 20, 0), UsageError);
}

}  // namespace
}  // namespace tutti
