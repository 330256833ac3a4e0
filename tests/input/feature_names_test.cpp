// What the features of a data set are called: stored by packers of tables, read and compared.
#include <gtest/gtest.h>

#include "hdf5_file.hpp"
#include "input/dataset_writer.hpp"
#include "pack_helpers.hpp"
#include "support/error_message.hpp"

namespace tutti {
namespace {

using test::data_error;
using test::Hdf5File;
using Names = std::vector<std::string>;

class FeatureNames : public test::Pack {
  protected:
    /// A table of two rows, packed.
    std::string packed(const std::string& name, const std::string& header, const std::string& rows) const {
        write("in.csv", header + "\n" + rows);
        PackCsvOptions options;
        options.csv = at("in.csv");
        options.output = at(name);
        options.label = "y";
        pack_csv(options);
        return options.output;
    }
    /// Of another program, with two features.
    std::string written(const std::string& name, const std::vector<const char*>& names) const {
        test::ImageFile{
            .samples = 2,
            .change =
                [&](Hdf5File& file) {
                    file.remove_table("samples");
                    const std::vector<float> values{1, 2, 3, 4};
                    file.table("samples", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {2, 2}, values.data());
                    if (!names.empty()) file.variable_texts("feature_names", names, H5T_CSET_UTF8);
                }}
            .write(at(name));
        return at(name);
    }
};

TEST_F(FeatureNames, ThoseOfATableAreItsColumnsWithoutTheLabel) {
    const auto data = open_hdf5_dataset(packed("a.h5", "age,y,Größe", "1,0,2\n3,1,4\n"));
    EXPECT_EQ(data->info().feature_names, (Names{"age", "Größe"}));
    write("in.csv", "id,b,x,a\n1,2,3,4\n");
    PackCsvOptions options;
    options.csv = at("in.csv");
    options.output = at("b.h5");
    options.targets = {"x"};
    options.drop = {"id"};
    EXPECT_EQ(pack_csv(options).feature_names, (Names{"b", "a"}));
    EXPECT_EQ(open_hdf5_dataset(options.output)->info().feature_names, (Names{"b", "a"}));
    const std::string latin_1 = packed("c.h5", std::string("gr\xf6\xdf") + "e,y", "1,0\n");
    EXPECT_EQ(open_hdf5_dataset(latin_1)->info().feature_names.size(), 1u);
}

TEST_F(FeatureNames, FilesThatAreUsedTogetherMustAgreeWhereBothHaveThem) {
    const std::string rows = "1,0,2\n3,9,4\n", a = packed("a.h5", "age,y,rooms", rows),
                      same = packed("same.h5", "age,y,rooms", rows),
                      other = packed("other.h5", "rooms,y,age", rows), none = written("none.h5", {});
    EXPECT_EQ(open_datasets(std::vector{a, same})->info().feature_names, (Names{"age", "rooms"}));
    EXPECT_EQ(open_datasets(std::vector{none, a})->info().feature_names, (Names{"age", "rooms"}));
    const std::string refusal = other + " has the features rooms, age, but " + a +
                                " has age, rooms; files that are used together must agree; pack them again "
                                "with the same columns in the same order";
    EXPECT_EQ(data_error([&] { open_datasets(std::vector{a, other}); }), refusal);
    EXPECT_EQ(data_error([&] { open_datasets(std::vector{none, a, other}); }), refusal);
}

TEST_F(FeatureNames, AFileOfAnotherProgramHasOneForEachFeature) {
    EXPECT_EQ(open_hdf5_dataset(written("a.h5", {"a", "b"}))->info().feature_names, (Names{"a", "b"}));
    EXPECT_EQ(data_error([&] {
                  open_hdf5_dataset(written("b.h5", {"a", "b", "c"}));
              }),
              at("b.h5") +
                  ": 'feature_names' has 3 names, but samples have 2 features; give a name for each, or "
                  "remove them, in h5py with del file.attrs['feature_names']");
}

TEST_F(FeatureNames, AnAttributeOfImagesThatIsCalledSoIsLeftAlone) {
    test::ImageFile{.samples = 2,
                    .change =
                        [](Hdf5File& file) {
                            file.variable_texts("feature_names", {"a", "b", "c"}, H5T_CSET_UTF8);
                        }}
        .write(at("a.h5"));
    EXPECT_TRUE(open_hdf5_dataset(at("a.h5"))->info().feature_names.empty());
}

TEST_F(FeatureNames, AValueThatIsNotFiniteIsSaidToBeOfItsFeature) {
    const std::string path = at("a.h5");
    DatasetInfo info;
    info.samples = 1;
    info.sample_shape = {2};
    info.dtype = DType::f32;
    info.classes = 1;
    info.feature_names = {"age", "rooms"};
    const std::vector<float> values{1, std::numeric_limits<float>::quiet_NaN()};
    DatasetWriter writer(path, info, "");
    writer.append(std::as_bytes(std::span(values)), std::vector<std::int64_t>{0});
    writer.commit();
    const auto data = open_hdf5_dataset(path);
    std::vector<std::byte> sample(8);
    std::vector<std::int64_t> label(1);
    EXPECT_CONTAINS(data_error([&] { data->read(std::vector<std::int64_t>{0}, sample, label); }),
                    "sample 0 has the value nan as feature 1 (rooms); ");
}

TEST(OtherFeatures, AreListedWhereTheyAreFew) {
    const Names trained{"age", "rooms"};
    EXPECT_EQ(other_features(trained, {"rooms", "age"}, "the model was trained with"),
              "has the features rooms, age, but the model was trained with age, rooms");
    EXPECT_EQ(other_features(trained, trained, "it has"), "");
    EXPECT_EQ(other_features(trained, {}, "it has"), "");
    EXPECT_EQ(other_features({}, trained, "it has"), "");
    Names many;
    for (int i = 0; i < 2944; ++i) many.push_back("f" + std::to_string(i));
    Names other = many;
    std::swap(other[12], other[13]);
    EXPECT_EQ(other_features(many, other, "a.h5 has"), "has f13 as feature 12, but a.h5 has f12 there");
}

}  // namespace
}  // namespace tutti
