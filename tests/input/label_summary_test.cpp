#include "tutti/input/label_summary.hpp"

#include <gtest/gtest.h>

#include "surroundings_alone.hpp"
#include "tutti/input/data_fingerprint.hpp"

namespace tutti::test {
namespace {

TEST(LabelSummary, SaysWhetherTheFirstClassIsEmpty) {
    const auto summary = [](const std::vector<std::int64_t>& labels, const std::vector<float>& targets = {}) {
        return summarize_labels(SurroundingsAlone(labels, targets));
    };
    EXPECT_TRUE(summary({1, 2, 3, 1}).first_class_empty);
    EXPECT_FALSE(summary({1, 2, 3, 0}).first_class_empty);
    EXPECT_FALSE(summary({}, {1, 2, 3, 4}).first_class_empty) << "there are no labels";
    EXPECT_EQ(summary({1, 2, 3, 1}).fingerprint, labels_fingerprint(SurroundingsAlone({1, 2, 3, 1}, {})));
    std::vector<std::int64_t> many(200'000, 1);
    EXPECT_TRUE(summary(many).first_class_empty);
    many[70'000] = 0;
    EXPECT_FALSE(summary(many).first_class_empty);
}

TEST(DoubtAboutLabels, IsOfNumberedClassesOfWhichTheFirstHasNoSample) {
    DatasetInfo info;
    info.classes = 4;
    const std::string doubt =
        "no sample has the label 0: classes are counted from 0, and class 0 stays empty";
    EXPECT_EQ(doubt_about_labels(info, true), doubt);
    EXPECT_EQ(doubt_about_labels(info, false), "");
    info.class_names = {"0", "1", "2", "3"};
    EXPECT_EQ(doubt_about_labels(info, true), doubt);
    info.class_names = {"cat", "dog", "emu", "fox"};
    EXPECT_EQ(doubt_about_labels(info, true), "") << "names say what the classes are";
    info.class_names.clear();
    info.classes = 1;
    EXPECT_EQ(doubt_about_labels(info, true), "");
    info.classes = 4;
    EXPECT_NE(remedy_for_labels(info).find("file.attrs[\"classes\"] = 3"), std::string::npos);
}

}  // namespace
}  // namespace tutti::test
