#include "tutti/train/training_data.hpp"

#include <gtest/gtest.h>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

DatasetInfo animals() {
    DatasetInfo info;
    info.sample_shape = {8, 8, 3};
    info.classes = 2;
    info.class_names = {"cat", "dög"};
    return info;
}

DatasetInfo table() {
    DatasetInfo info;
    info.sample_shape = {3};
    info.labelled = false;
    info.targets = 2;
    info.target_names = {"x", "y"};
    info.feature_names = {"age", "rooms", "a \"quoted\" one"};
    return info;
}

void expect_same(const DatasetInfo& read, const DatasetInfo& said) {
    EXPECT_TRUE(read.sample_shape == said.sample_shape);
    EXPECT_EQ(read.labelled, said.labelled);
    EXPECT_EQ(read.classes, said.classes);
    EXPECT_EQ(read.class_names, said.class_names);
    EXPECT_EQ(read.targets, said.targets);
    EXPECT_EQ(read.target_names, said.target_names);
    EXPECT_EQ(read.target_kind, said.target_kind);
    EXPECT_EQ(read.feature_names, said.feature_names);
    EXPECT_EQ(read.frames, said.frames);
}

TEST(TrainingData, IsTheSameAgainFromItsText) {
    DatasetInfo clips, sequences;
    clips.sample_shape = {16, 16, 48};
    clips.frames = 16;
    sequences.sample_shape = {20, 5};
    sequences.labelled = false;
    sequences.targets = 40;
    sequences.target_kind = target_kinds::segments;
    for (const DatasetInfo& said : {animals(), table(), clips, sequences}) {
        const std::string text = training_data_to_json(said);
        EXPECT_EQ(text.find('\n'), std::string::npos);
        const auto read = training_data_from_json(text, "x");
        ASSERT_TRUE(read) << text;
        expect_same(*read, said);
    }
    EXPECT_EQ(training_data_to_json(animals()),
              R"({"shape":[8,8,3],"labelled":true,"classes":2,"class_names":["cat","dög"]})");
}

TEST(TrainingData, NamesThatAreNotUtf8AreLeftOut) {
    DatasetInfo latin = table();
    latin.feature_names[1] =
        "gr\xf6\xdf"
        "e";
    const auto read = training_data_from_json(training_data_to_json(latin), "x");
    ASSERT_TRUE(read);
    EXPECT_TRUE(read->feature_names.empty());
    EXPECT_EQ(read->target_names, latin.target_names);
}

TEST(TrainingData, NamesOfClassesThatAreNotThereAreLeftOut) {
    // As of a file without labels, which need not say how many classes there are.
    DatasetInfo unlabelled = animals();
    unlabelled.labelled = false;
    unlabelled.classes = 0;
    const std::string text = training_data_to_json(unlabelled);
    EXPECT_EQ(text, R"({"shape":[8,8,3],"labelled":false})");
    EXPECT_TRUE(training_data_from_json(text, "x"));
}

TEST(TrainingData, OfNoTextIsNothing) {
    EXPECT_FALSE(training_data_from_json("", "x"));
}

TEST(TrainingData, WhatIsNoSuchTextIsRefused) {
    for (const char* text :
         {"{", "[]", "7", "{}", R"({"shape": [4]})", R"({"shape": [], "labelled": true})",
          R"({"shape": [1, 1, 1, 1, 1, 1, 1], "labelled": true})", R"({"shape": [0], "labelled": true})",
          R"({"shape": [-3], "labelled": true})", R"({"shape": "4", "labelled": true})",
          R"({"shape": [4], "labelled": 1})", R"({"shape": [4], "labelled": true, "classes": -1})",
          R"({"shape": [4], "labelled": true, "classes": "2"})",
          R"({"shape": [4], "labelled": true, "classes": 3, "class_names": ["a", "b"]})",
          R"({"shape": [4], "labelled": false, "targets": 1, "target_names": ["a", "b"]})",
          R"({"shape": [4], "labelled": true, "feature_names": ["a"]})"})
        try {
            training_data_from_json(text, "w.h5");
            ADD_FAILURE() << text;
        } catch (const DataError& error) {
            EXPECT_EQ(std::string(error.what()).find("w.h5 does not say what it was trained on"), 0U) << text;
        }
}

TEST(DoubtAboutNames, IsOfFeaturesThatAreOthers) {
    DatasetInfo other = table();
    EXPECT_EQ(doubt_about_names(table(), other, "d.h5", true), "");
    std::swap(other.feature_names[0], other.feature_names[1]);
    for (const bool keeps_head : {false, true})
        EXPECT_EQ(
            doubt_about_names(table(), other, "d.h5", keeps_head),
            "d.h5 has the features rooms, age, a \"quoted\" one, but the weights of model.init_from were "
            "trained with age, rooms, a \"quoted\" one; pack the data with the columns of these weights, in "
            "their order");
}

TEST(DoubtAboutNames, IsOfClassesWhereTheHeadIsKept) {
    DatasetInfo other = animals();
    other.class_names = {"cat", "cow"};
    EXPECT_EQ(
        doubt_about_names(animals(), other, "d.h5", true),
        "d.h5: class 1 is cow, but in the data that the weights of model.init_from are of it is dög; the "
        "head begins with its weights");
    EXPECT_EQ(doubt_about_names(animals(), other, "d.h5", false), "");
    other.classes = 3;
    other.class_names.push_back("dög");
    EXPECT_EQ(doubt_about_names(animals(), other, "d.h5", true), "") << "which the head does not fit";
}

}  // namespace
}  // namespace tutti
