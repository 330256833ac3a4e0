// NumPy's files: types, versions of the header, and what is refused.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <bit>
#include <cmath>

#include "input/npy_file.hpp"
#include "npy_files.hpp"
#include "pack_helpers.hpp"

namespace tutti {
namespace {

using test::npy;

class NpyFiles : public test::Pack {
  protected:
    std::vector<float> all(const std::string& bytes) const {
        write("a.npy", bytes);
        const NpyFile file(at("a.npy"));
        std::vector<float> values(static_cast<std::size_t>(file.rows() * file.columns()));
        file.read(0, file.rows(), values.data(), file.columns());
        return values;
    }
    std::string refused(const std::string& bytes) const {
        write("a.npy", bytes);
        return refusal([&] { NpyFile(at("a.npy")); });
    }
    std::string about(const std::string& text) const { return "4 " + at("a.npy") + ": " + text; }
    const std::vector<float> values_ = {1.5F, -2, 3, 4, 5, 6};
};

TEST_F(NpyFiles, AllTypesAndVersionsOfTheHeaderAreRead) {
    for (const int version : {1, 2, 3}) EXPECT_EQ(all(npy("<f4", "(3, 2)", values_, version)), values_);
    EXPECT_EQ(all(npy("<f8", "(3, 2)", std::vector<double>(values_.begin(), values_.end()))), values_);
    // 1, -2, the largest number, the smallest one, which is subnormal, and the smallest normal one.
    const std::vector<std::uint16_t> halves = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x0400, 0x8000};
    EXPECT_EQ(all(npy("<f2", "(2, 3)", halves)),
              (std::vector<float>{1, -2, 65504, std::ldexp(1.F, -24), std::ldexp(1.F, -14), 0}));
}

TEST_F(NpyFiles, HalvesBecomeTheNumbersThatTheirFormatSays) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const int exponent = static_cast<int>(bits >> 10 & 31U);
        const auto fraction = static_cast<float>(bits & 1023U);
        float wanted = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
        if (exponent == 31) wanted = fraction == 0 ? INFINITY : NAN;
        if (bits >> 15 != 0) wanted = -wanted;
        const float got = half_to_float(static_cast<std::uint16_t>(bits));
        if (std::isnan(wanted))
            ASSERT_TRUE(std::isnan(got)) << bits;
        else
            ASSERT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(wanted)) << bits;
    }
}

TEST_F(NpyFiles, RowsAreReadWhereTheyAreWanted) {
    write("a.npy", npy("<f4", "(3, 2)", values_));
    const NpyFile file(at("a.npy"));
    EXPECT_EQ(file.rows(), 3);
    EXPECT_EQ(file.columns(), 2);
    std::vector<float> values(6, 0);
    file.read(1, 2, values.data() + 1, 3);
    EXPECT_EQ(values, (std::vector<float>{0, 3, 4, 0, 5, 6}));
}

TEST_F(NpyFiles, MoreThanIsReadAtOnce) {
    std::vector<double> many(300000);
    for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(i);
    EXPECT_EQ(all(npy("<f8", "(100000, 3)", many)), std::vector<float>(many.begin(), many.end()));
    EXPECT_EQ(all(npy("<f8", "(1, 300000)", many)), std::vector<float>(many.begin(), many.end()));
}

TEST_F(NpyFiles, OtherArraysAreRefusedWithTheRemedy) {
    const std::string as_floats = "; write it again: numpy.save(path, features.astype('float32'))";
    EXPECT_EQ(refused(npy("<i8", "(3, 2)", std::vector<std::int64_t>(6))),
              about("its values have the type <i8, not <f2, <f4 or <f8" + as_floats));
    EXPECT_EQ(refused(npy(">f4", "(3, 2)", values_)),
              about("its values have the type >f4, not <f2, <f4 or <f8" + as_floats));
    EXPECT_EQ(refused(npy("<f4", "(3, 2)", values_, 1, "True")),
              about("its values are in Fortran's order; write it again: numpy.save(path, "
                    "numpy.ascontiguousarray(features))"));
    for (const char* const shape : {"(6,)", "(1, 2, 3)", "()"})
        EXPECT_NE(
            refused(npy("<f4", shape, values_)).find("not [seconds, features]; write it again with a row"),
            std::string::npos);
    // Records: the type is a list.
    std::string records = npy("<f4", "(3, 2)", values_);
    records.replace(records.find("'<f4'"), 5, "[   ]");
    EXPECT_EQ(refused(records), about("its header is not that of an array of numbers" + as_floats));
    // One row, or one column, has both orders.
    EXPECT_EQ(all(npy("<f4", "(1, 6)", values_, 1, "True")), values_);
}

TEST_F(NpyFiles, DamagedFilesAreRefused) {
    const std::string whole = npy("<f4", "(3, 2)", values_);
    EXPECT_EQ(refused(whole.substr(0, whole.size() - 1)),
              about("it is cut off: its header says [3, 2] values; copy it again, or write it again with "
                    "numpy.save"));
    EXPECT_EQ(refused(whole.substr(0, 100)), about("its header is cut off; write it again with numpy.save"));
    EXPECT_EQ(refused("x"), about("it is too short for a .npy file; write it again with numpy.save"));
    EXPECT_EQ(refused(std::string(100, 'x')), about("it is no .npy file; give files that numpy.save wrote"));
    std::string version = whole;
    version[6] = 9;
    EXPECT_NE(refused(version).find("has the version 9, not 1, 2 or 3"), std::string::npos);
    EXPECT_NE(refused(npy("<f4", "(9000000000000000000, 9)", values_)).find("it is cut off"),
              std::string::npos);
    // Whatever a header is, it is refused, not followed.
    const std::size_t begin = whole.find('{'), end = whole.find('}');
    for (std::size_t at = begin; at <= end; ++at) {
        std::string changed = whole;
        changed[at] = '~';
        EXPECT_EQ(refused(changed).substr(0, 2), "4 ") << at;
    }
}

TEST_F(NpyFiles, MissingFilesAndPipesAreRefusedAtOnce) {
    EXPECT_EQ(refusal([&] { NpyFile(at("b.npy")); }),
              "4 " + at("b.npy") + ": No such file or directory; check the path, or extract the features");
    ASSERT_EQ(mkfifo(at("p.npy").c_str(), 0600), 0);
    EXPECT_EQ(refusal([&] { NpyFile(at("p.npy")); }),
              "4 " + at("p.npy") + ": it is no regular file; name a .npy file");
}

}  // namespace
}  // namespace tutti
