// Which rows are packed: by their values, and by their targets.
#include "input/row_choice.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "pack_helpers.hpp"

namespace tutti {
namespace {

class Choice : public test::Pack {
  protected:
    using Fields = std::vector<std::string>;

    /// Of the column a with these values to keep; rows have a, b and c.
    bool keeps(const std::vector<KeptValue>& keep, const Fields& fields) {
        RowChoice choice(header(), keep, {});
        return choice.take(reader(), fields);
    }
    const CsvReader& reader() {
        if (!reader_) {
            write("in.csv", "a,b,c\n");
            reader_.emplace(at("in.csv"), ',');
        }
        return *reader_;
    }
    CsvHeader header() const { return {"in.csv", names_, ','}; }

  private:
    Fields names_{"a", "b", "c"};
    std::optional<CsvReader> reader_;
};

TEST_F(Choice, ValuesAreEqualAsTextOrAsNumbers) {
    for (const char* text : {"1", " 1", "1.0", "+1", "1e0\t"})
        EXPECT_TRUE(keeps({{"a", "1"}}, {text, "", ""})) << text;
    for (const char* text : {"", "2", "one", "1x", "-1"})
        EXPECT_FALSE(keeps({{"a", "1"}}, {text, "", ""})) << text;
    EXPECT_TRUE(keeps({{"b", " train "}}, {"", "train", ""}));
    EXPECT_FALSE(keeps({{"b", "train"}}, {"", "Train", ""}));
    EXPECT_TRUE(keeps({{"b", ""}}, {"", " ", ""}));
    EXPECT_TRUE(keeps({{"b", "nan"}}, {"", "nan", ""}));
    EXPECT_TRUE(keeps({}, {"", "", ""}));
}

TEST_F(Choice, OneOfTheValuesOfEachColumnIsKept) {
    const std::vector<KeptValue> keep{{"a", "1"}, {"b", "x"}, {"a", "2"}};
    EXPECT_TRUE(keeps(keep, {"1", "x", ""}));
    EXPECT_TRUE(keeps(keep, {"2", "x", ""}));
    EXPECT_FALSE(keeps(keep, {"3", "x", ""}));
    EXPECT_FALSE(keeps(keep, {"1", "y", ""}));
}

TEST_F(Choice, RowsAreTakenWithTheirTargetsOrCounted) {
    RowChoice choice(header(), std::vector<KeptValue>{{"a", "1"}}, std::vector<std::string>{"c", "b"});
    EXPECT_TRUE(choice.take(reader(), Fields{"1", "2.5", " -3"}));
    EXPECT_EQ(choice.targets(), (std::vector{-3.F, 2.5F}));
    EXPECT_TRUE(choice.take(reader(), Fields{"1", "4", "5"}));
    EXPECT_EQ(choice.targets(), (std::vector{5.F, 4.F}));
    for (const char* text : {"", " ", "nan", "-inf"}) {
        EXPECT_FALSE(choice.take(reader(), Fields{"1", text, "0"})) << text;
        EXPECT_FALSE(choice.take(reader(), Fields{"1", "0", text})) << text;
    }
    EXPECT_FALSE(choice.take(reader(), Fields{"0", "", "no number"}));
    EXPECT_EQ(choice.counts().not_kept, 1);
    EXPECT_EQ(choice.counts().without_target, 8);
    choice.require_some("in.csv", 2);
    EXPECT_EQ(refusal([&] { choice.require_some("in.csv", 0); }),
              "4 in.csv: of 9 rows none is left: --keep leaves out 1, and 8 have no finite target; check "
              "--keep and "
              "--target");
    RowChoice(header(), {}, {}).require_some("in.csv", 0);
}

TEST_F(Choice, RowsWithoutATargetMayBeTakenAndCounted) {
    RowChoice choice(header(), std::vector<KeptValue>{{"a", "1"}}, std::vector<std::string>{"c", "b"},
                     AbsentTargets::keep_as_nan);
    EXPECT_TRUE(choice.take(reader(), Fields{"1", "2.5", " -3"}));
    EXPECT_EQ(choice.targets(), (std::vector{-3.F, 2.5F}));
    for (const char* text : {"", " ", "nan", "-inf"}) {
        EXPECT_TRUE(choice.take(reader(), Fields{"1", "7", text})) << text;
        ASSERT_EQ(choice.targets().size(), 2U);
        EXPECT_TRUE(std::isnan(choice.targets()[0])) << text;
        EXPECT_EQ(choice.targets()[1], 7);
    }
    EXPECT_FALSE(choice.take(reader(), Fields{"0", "", ""}));
    EXPECT_EQ(choice.counts().not_kept, 1);
    EXPECT_EQ(choice.counts().without_target, 0);
    EXPECT_EQ(choice.counts().filled, 4);
    EXPECT_EQ(refusal([&] { choice.take(reader(), Fields{"1", "far", ""}); }).substr(0, 2), "4 ");
}

TEST_F(Choice, OnlyWholePlacesAreFilledWherePlacesAreNamed) {
    const std::vector<std::string> names{"there", "x", "y"}, targets{"there", "x", "y"}, places{"x", "y"};
    const CsvHeader header{"list.csv", names};
    RowChoice choice(header, {}, targets, AbsentTargets::keep_as_nan, places);
    EXPECT_TRUE(choice.take(reader(), Fields{"1", "2", "3"}));
    EXPECT_TRUE(choice.take(reader(), Fields{"0", "", ""}));
    EXPECT_FALSE(choice.take(reader(), Fields{"1", "2", ""}));
    EXPECT_FALSE(choice.take(reader(), Fields{"1", "nan", "3"}));
    EXPECT_FALSE(choice.take(reader(), Fields{"", "2", "3"}));
    EXPECT_FALSE(choice.take(reader(), Fields{"", "", ""}));
    EXPECT_EQ(choice.counts().filled, 1);
    EXPECT_EQ(choice.counts().without_target, 4);
}

TEST_F(Choice, TargetsThatAreNoNumbersAreErrors) {
    RowChoice choice(header(), {}, std::vector<std::string>{"b", "c"});
    const std::string place = "4 " + at("in.csv") + ":0: column c: ";
    EXPECT_EQ(refusal([&] {
                  choice.take(reader(), Fields{"", "", "far"});
              }),
              place +
                  "'far' is not a number; correct it, or leave the field empty: rows without a target are "
                  "left out");
    EXPECT_EQ(refusal([&] {
                  choice.take(reader(), Fields{"", "0", "1e39"});
              }),
              place + "1e39 is not a finite number of 32 bits; give the target in another unit");
}

TEST_F(Choice, ColumnsThatAreNotThereOrTwiceAreRefused) {
    const auto refused = [&](const std::vector<KeptValue>& keep, const std::vector<std::string>& targets) {
        return refusal([&] { RowChoice(header(), keep, targets); }).substr(0, 40);
    };
    EXPECT_EQ(refused({{"label", "1"}}, {}), "2 --keep: in.csv has no column label; it");
    EXPECT_EQ(refused({}, {"a", "x_pix"}), "2 --target: in.csv has no column x_pix; ");
    EXPECT_EQ(refused({}, {"a", "b", "a"}), "2 --target names the column a twice; nam");
}

}  // namespace
}  // namespace tutti
