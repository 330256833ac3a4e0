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
    const std::string must = ", but must be float32 or float64 [N, K] with K of at least 1";
    EXPECT_CONTAINS(refusal(3, integers({3, 2})), "/targets is int32 [3, 2]" + must +
                                                      ": convert them, in h5py with astype('float32'); pack");
    EXPECT_CONTAINS(refusal(3, floats({3})),
                    "/targets is float32 [3]" + must +
                        ": one number for each sample is K = 1, one dimension more (in "
                        "h5py targets[:, None]); pack");
    EXPECT_CONTAINS(refusal(3, floats({3, 0})), "/targets is float32 [3, 0]" + must + "; pack");
    EXPECT_CONTAINS(refusal(3, floats({4, 2})), "/targets has 4 rows, but /samples has 3; pack");
    EXPECT_CONTAINS(refusal(3,
                            [](Hdf5File& file) {
                                add(file, {1, 2, 3}, 1);
                                file.integer("classes", 10);
                            }),
                    "there are /targets, but the attribute 'classes' is for labels; pack");
    EXPECT_CONTAINS(refusal(3,
                            [](Hdf5File& file) {
                                add(file, {1, 2, 3}, 1);
                                file.variable_texts("class_names", {"a"}, H5T_CSET_UTF8);
                            }),
                    "there are /targets, but the attribute 'class_names' is for labels; pack");
    EXPECT_CONTAINS(refusal(3,
                            [](Hdf5File& file) {
                                add(file, {1, 2, 3}, 1);
                                file.variable_texts("target_names", {"x", "y"}, H5T_CSET_UTF8);
                            }),
                    "'target_names' has 2 names, but samples have 1 target; pack");
    ImageFile{.samples = 3, .change = [](Hdf5File& file) { add(file, {1, 2, 3}, 1); }}.write(path());
    EXPECT_EQ(data_error([&] { open_hdf5_dataset(path()); }),
              path() +
                  ": there are both /labels and /targets; keep what is to be learnt and remove the other, in "
                  "h5py with del file['labels'] or del file['targets']");
}

}  // namespace
}  // namespace tutti
