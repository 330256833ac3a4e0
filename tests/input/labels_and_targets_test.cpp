// Files with targets in place of labels.
#include <gtest/gtest.h>

#include <limits>

#include "hdf5_file.hpp"
#include "support/error_message.hpp"
#include "support/temp_dir.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti {
namespace {

using test::data_error;
using test::Hdf5File;
using test::ImageFile;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

class Targets : public testing::Test {
  protected:
    std::string path() const { return dir_.path() + "/data.h5"; }
    /// `samples` images without labels, and what `add` puts beside them.
    void write(hsize_t samples, const std::function<void(Hdf5File&)>& add) const {
        ImageFile{.samples = samples,
                  .change =
                      [&](Hdf5File& file) {
                          file.remove_table("labels");
                          file.remove_attribute("classes");
                          add(file);
                      }}
            .write(path());
    }
    std::string refusal(hsize_t samples, const std::function<void(Hdf5File&)>& add) const {
        write(samples, add);
        const std::string message = data_error([&] { open_hdf5_dataset(path()); });
        EXPECT_EQ(message.find(path() + ": "), 0U) << message;
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
        return message;
    }

  private:
    test::TempDir dir_;
};

void add(Hdf5File& file, const std::vector<double>& values, hsize_t targets, hid_t type = H5T_IEEE_F64LE) {
    file.table("targets", type, H5T_NATIVE_DOUBLE, {values.size() / targets, targets}, values.data());
}

TEST_F(Targets, AreReadInPlaceOfLabels) {
    for (const hid_t type : {H5T_IEEE_F32LE, H5T_IEEE_F64LE, H5T_IEEE_F64BE}) {
        write(3, [type](Hdf5File& file) {
            add(file, {0.1, -2, 3e30, 4, 5, 6}, 2, type);
            file.variable_texts("target_names", {"x", "y"}, H5T_CSET_UTF8);
        });
        for (const Labels wanted : {Labels::required, Labels::optional}) {
            const auto data = open_hdf5_dataset(path(), mapped_limit, wanted);
            EXPECT_EQ(data->info().targets, 2);
            EXPECT_EQ(data->info().target_names, (std::vector<std::string>{"x", "y"}));
            EXPECT_FALSE(data->info().labelled);
            EXPECT_EQ(data->info().classes, 0);
            const std::span<const float> targets = data->targets();
            EXPECT_EQ(std::vector(targets.begin(), targets.end()),
                      (std::vector{0.1F, -2.F, 3e30F, 4.F, 5.F, 6.F}));
            std::vector<std::int64_t> labels(2, 7);
            std::vector<std::byte> samples(48);
            data->read(std::vector<std::int64_t>{2, 0}, samples, labels);
            EXPECT_EQ(labels, (std::vector<std::int64_t>{0, 0}));
            EXPECT_EQ(samples[0], std::byte{48});
        }
    }
    write(3, [](Hdf5File& file) { add(file, {1, 2, 3}, 1); });
    EXPECT_EQ(open_hdf5_dataset(path())->info().targets, 1);
    EXPECT_TRUE(open_hdf5_dataset(path())->info().target_names.empty());
    write(0, [](Hdf5File& file) { add(file, {}, 2); });
    EXPECT_EQ(open_hdf5_dataset(path())->info().targets, 2);
    EXPECT_TRUE(open_hdf5_dataset(path())->targets().empty());
}

TEST_F(Targets, AFileWithoutThemHasNone) {
    ImageFile{}.write(path());
    const auto data = open_hdf5_dataset(path());
    EXPECT_EQ(data->info().targets, 0);
    EXPECT_TRUE(data->targets().empty());
}

TEST_F(Targets, MustBeFinite) {
    const std::string rest =
        "; correct the value or leave the sample out: targets must be finite numbers of 32 bits";
    EXPECT_EQ(refusal(3,
                      [](Hdf5File& file) {
                          add(file, {1, 2, 3, nan, 5, 6}, 2);
                      }),
              path() + ": sample 1 has the value nan as target 1" + rest);
    EXPECT_EQ(refusal(3,
                      [](Hdf5File& file) {
                          add(file, {1, 2, 3, 4, -1e300, 6}, 2);
                          file.variable_texts("target_names", {"x", "y"}, H5T_CSET_UTF8);
                      }),
              path() + ": sample 2 has the value -inf as target 0 (x)" + rest);
}

TEST_F(Targets, ThatTheSchemaDoesNotAllowAreRefused) {
    const auto integers = [](const std::vector<hsize_t>& dims) {
        return [dims](Hdf5File& file) { file.table("targets", H5T_STD_I32LE, H5T_STD_I32LE, dims, nullptr); };
    };
    const auto floats = [](const std::vector<hsize_t>& dims) {
        return
            [dims](Hdf5File& file) { file.table("targets", H5T_IEEE_F32LE, H5T_IEEE_F32LE, dims, nullptr); };
    };
    const std::string must = ", but must be float32 or float64 [N, K] with K of at least 1; ",
                      pack = "pack it again with: trainer pack csv --csv TABLE.csv --target COLUMNS -o";
    EXPECT_CONTAINS(refusal(3, integers({3, 2})),
                    "/targets is int32 [3, 2]" + must +
                        "convert them, in h5py with targets.astype('float32'), or " + pack);
    EXPECT_CONTAINS(refusal(3, floats({3})),
                    "/targets is float32 [3]" + must +
                        "store them with one dimension more, K = 1, in h5py as targets[:, None], or " + pack);
    EXPECT_CONTAINS(refusal(3, floats({3, 0})), "/targets is float32 [3, 0]" + must + pack);
    EXPECT_CONTAINS(refusal(3, floats({4, 2})), "/targets has 4 rows, but /samples has 3; " + pack);
    EXPECT_CONTAINS(refusal(3,
                            [](Hdf5File& file) {
                                add(file, {1, 2, 3}, 1);
                                file.doubles("mean", {0.5});
                            }),
                    "one of 'mean' and 'std' is given without the other; " + pack);
    ImageFile{.samples = 3, .change = [](Hdf5File& file) { add(file, {1, 2, 3}, 1); }}.write(path());
    EXPECT_EQ(data_error([&] { open_hdf5_dataset(path()); }),
              path() +
                  ": there are both /labels and /targets; keep what is to be learnt and remove the other, in "
                  "h5py with del file['labels'] or del file['targets']");
}

TEST_F(Targets, AttributesThatDoNotFitThemAreRefusedWithWhatRemovesThem) {
    const auto beside = [&](const std::function<void(Hdf5File&)>& attributes) {
        return refusal(3, [&](Hdf5File& file) {
            add(file, {1, 2, 3}, 1);
            attributes(file);
        });
    };
    const auto classes = [](Hdf5File& file) { file.integer("classes", 10); };
    const auto names = [](Hdf5File& file) { file.variable_texts("class_names", {"a"}, H5T_CSET_UTF8); };
    const std::string there = path() + ": there are /targets, but the attribute";
    EXPECT_EQ(beside(classes), there +
                                   " 'classes' is for labels; remove it, in h5py with del "
                                   "file.attrs['classes']");
    EXPECT_EQ(beside(names), there +
                                 " 'class_names' is for labels; remove it, in h5py with del "
                                 "file.attrs['class_names']");
    EXPECT_EQ(beside([&](Hdf5File& file) {
                  classes(file);
                  names(file);
              }),
              there +
                  "s 'classes' and 'class_names' are for labels; remove them, in h5py with del "
                  "file.attrs['classes'], file.attrs['class_names']");
    EXPECT_EQ(beside([](Hdf5File& file) {
                  file.variable_texts("target_names", {"x", "y"}, H5T_CSET_UTF8);
              }),
              path() +
                  ": 'target_names' has 2 names, but samples have 1 target; give a name for each, or "
                  "remove them, in h5py with del file.attrs['target_names']");
}

TEST_F(Targets, ThatWereNotWrittenAreNotTakenForZeros) {
    const auto never = [](hsize_t targets, const std::function<void(hid_t)>& layout = {}) {
        return [=](Hdf5File& file) {
            file.table("targets", H5T_IEEE_F32LE, H5T_IEEE_F32LE, {3, targets}, nullptr, layout);
        };
    };
    const std::string rest =
        ", of which 0 were written; write all of it, or remove it, in h5py with del file['targets'], "
        "or pack it again with: trainer pack csv";
    EXPECT_CONTAINS(refusal(3, never(2)), "/targets is float32 [3, 2], 24 bytes" + rest);
    // No memory is asked for what is claimed.
    EXPECT_CONTAINS(refusal(3, never(hsize_t{10'000'000'000})),
                    "/targets is float32 [3, 10000000000], 120000000000 bytes" + rest);
    const auto chunked = [](hid_t creation) {
        const hsize_t chunk[] = {1, 2};
        H5Pset_chunk(creation, 2, chunk);
    };
    const auto compressed = [chunked](hid_t creation) {
        chunked(creation);
        H5Pset_deflate(creation, 1);
    };
    EXPECT_CONTAINS(refusal(3, never(2, chunked)), "/targets is float32 [3, 2], 3 chunks" + rest);
    EXPECT_CONTAINS(refusal(3, never(2, compressed)), "/targets is float32 [3, 2], 3 chunks" + rest);
    for (const std::function<void(hid_t)>& layout :
         std::vector<std::function<void(hid_t)>>{chunked, compressed}) {
        const std::vector<float> zeros(6);
        write(3, [&](Hdf5File& file) {
            file.table("targets", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {3, 2}, zeros.data(), layout);
        });
        EXPECT_EQ(open_hdf5_dataset(path())->targets().size(), 6U);
    }
}

TEST_F(Targets, SomeChunksOfWhichWereWrittenAreNotTakenForZeros) {
    for (const bool compressed : {false, true}) {
        const std::string message = refusal(3, [compressed](Hdf5File& file) {
            file.table("targets", H5T_IEEE_F32LE, H5T_IEEE_F32LE, {3, 2}, nullptr, [=](hid_t creation) {
                const hsize_t chunk[] = {2, 2};
                H5Pset_chunk(creation, 2, chunk);
                if (compressed) H5Pset_deflate(creation, 1);
            });
            const float row[] = {1, 2};
            file.first_rows("targets", H5T_NATIVE_FLOAT, 1, row);
        });
        EXPECT_CONTAINS(message, "/targets is float32 [3, 2], 2 chunks, of which 1 was written; ");
    }
}

TEST_F(Targets, LabelsThatWereNotWrittenAreNotTakenForClass0) {
    ImageFile{.samples = 3,
              .change =
                  [](Hdf5File& file) {
                      file.remove_table("labels");
                      file.table("labels", H5T_STD_I64LE, H5T_STD_I64LE, {3}, nullptr);
                  }}
        .write(path());
    EXPECT_CONTAINS(
        data_error([&] { open_hdf5_dataset(path()); }),
        path() +
            ": /labels is int64 [3], 24 bytes, of which 0 were written; write all of it, or "
            "remove it, in h5py with del file['labels'], or pack it again with: trainer pack idx");
}

}  // namespace
}  // namespace tutti
