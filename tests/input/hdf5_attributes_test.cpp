#include "input/hdf5_attributes.hpp"

#include <gtest/gtest.h>

#include "hdf5_file.hpp"
#include "support/temp_dir.hpp"

namespace tutti {
namespace {

class Hdf5Attributes : public testing::Test {
  protected:
    hdf5::File reopened(const std::function<void(test::Hdf5File&)>& write) const {
        const std::string path = dir_.path() + "/a.h5";
        {
            test::Hdf5File file(path);
            write(file);
        }
        return {hdf5::Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose), path};
    }

  private:
    test::TempDir dir_;
};

using Texts = std::vector<std::string>;

TEST_F(Hdf5Attributes, AbsentOnesAreEmpty) {
    const hdf5::File file = reopened([](test::Hdf5File&) {});
    EXPECT_FALSE(hdf5::read_integer(file, "x"));
    EXPECT_FALSE(hdf5::read_text(file, "x"));
    EXPECT_TRUE(hdf5::read_texts(file, "x").empty());
    EXPECT_TRUE(hdf5::read_floats(file, "x").empty());
}

TEST_F(Hdf5Attributes, TextsOfVariableLength) {
    for (const H5T_cset_t set : {H5T_CSET_ASCII, H5T_CSET_UTF8}) {
        const hdf5::File file = reopened([set](test::Hdf5File& f) {
            f.variable_texts("names", {"T-shirt/top", "", "Kleid"}, set);
        });
        EXPECT_EQ(hdf5::read_texts(file, "names"), (Texts{"T-shirt/top", "", "Kleid"}));
    }
}

TEST_F(Hdf5Attributes, TextsOfFixedLength) {
    using namespace std::string_literals;
    const hdf5::File file = reopened([](test::Hdf5File& f) {
        f.fixed_texts("null_padded", 4, H5T_STR_NULLPAD, "cat\0bear\0\0\0\0"s);
        f.fixed_texts("null_ended", 4, H5T_STR_NULLTERM, "cat\0ox\0?"s);
        f.fixed_texts("space_padded", 4, H5T_STR_SPACEPAD, "cat bear    a b "s);
    });
    EXPECT_EQ(hdf5::read_texts(file, "null_padded"), (Texts{"cat", "bear", ""}));
    EXPECT_EQ(hdf5::read_texts(file, "null_ended"), (Texts{"cat", "ox"}));
    EXPECT_EQ(hdf5::read_texts(file, "space_padded"), (Texts{"cat", "bear", "", "a b"}));
}

TEST_F(Hdf5Attributes, IntegersAreNumbers) {
    const hdf5::File file = reopened([](test::Hdf5File& f) { f.integer("mean", 3); });
    EXPECT_EQ(hdf5::read_floats(file, "mean"), std::vector<float>{3});
}

TEST_F(Hdf5Attributes, WrongTypeNamesFileAndAttribute) {
    const hdf5::File file = reopened([](test::Hdf5File& f) {
        f.text("text", "ten");
        f.doubles("numbers", {1, 2});
    });
    EXPECT_EQ(test::data_error([&] {
                  hdf5::read_integer(file, "text");
              }).find(file.path + ": the attribute 'text' is not one integer; "),
              0U);
    EXPECT_EQ(test::data_error([&] {
                  hdf5::read_text(file, "numbers");
              }).find(file.path + ": the attribute 'numbers' is not one text; "),
              0U);
    EXPECT_EQ(test::data_error([&] {
                  hdf5::read_texts(file, "numbers");
              }).find(file.path + ": the attribute 'numbers' is not text; "),
              0U);
    EXPECT_EQ(test::data_error([&] {
                  hdf5::read_floats(file, "text");
              }).find(file.path + ": the attribute 'text' is not a list of numbers; "),
              0U);
}

}  // namespace
}  // namespace tutti
