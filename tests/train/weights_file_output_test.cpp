// Names in written weights, and what files of weights say of the data that they were trained on.

#include <gtest/gtest.h>

#include <filesystem>

#include "support/files.hpp"
#include "support/temp_dir.hpp"
#include "tutti/base/error.hpp"
#include "tutti/train/checkpoint.hpp"
#include "tutti/train/weights_file.hpp"

namespace tutti {
namespace {

TEST(WriteWeights, RefusesNamesThatHdf5CannotHold) {
    const test::TempDir directory;
    for (const std::string& name : {std::string("params/dense/kernel"), std::string(), std::string("."),
                                    std::string("./x"), std::string("a\0b", 3)}) {
        const std::vector<NamedTensor> tensors{{name, DType::f32, Shape{1}, std::vector<std::byte>(4)}};
        EXPECT_THROW(write_weights(directory.path() + "/w.h5", tensors), DataError) << name;
        EXPECT_TRUE(test::names_in(directory.path()).empty());
        write_weights(directory.path() + "/w.safetensors", tensors);
        EXPECT_EQ(read_weights(directory.path() + "/w.safetensors").front().name, name);
        std::filesystem::remove(directory.path() + "/w.safetensors");
    }
}

TEST(ReadTrainedOn, FindsItInCheckpointsAndExportedWeights) {
    const test::TempDir directory;
    const std::string path = directory.path() + "/weights";
    const TrainedOn both{R"({"mean": [0.5], "std": [2]})", R"({"shape": [4], "labelled": true})"}, nothing;
    const std::vector<NamedTensor> tensors{{"w", DType::f32, Shape{1}, std::vector<std::byte>(4)}};
    for (const std::string ending : {".safetensors", ".h5"}) {
        for (const TrainedOn& said : {both, nothing, {both.normalisation, ""}, {"", both.data}}) {
            write_weights(path + ending, tensors, said);
            EXPECT_EQ(read_trained_on(path + ending), said) << ending;
            EXPECT_EQ(read_weights(path + ending).size(), 1U);
        }
        // Of hundreds of features, and of many thousands.
        for (const std::size_t size : {5'000U, 70'000U, 1'000'000U}) {
            const TrainedOn long_one{std::string(size, 'x'), std::string(size, 'y')};
            write_weights(path + ending, tensors, long_one);
            EXPECT_EQ(read_trained_on(path + ending), long_one) << ending;
        }
    }
    Checkpoint checkpoint;
    save_checkpoint(path, checkpoint);
    EXPECT_EQ(read_trained_on(path), nothing);
    checkpoint.normalisation = both.normalisation;
    checkpoint.training_data = both.data;
    save_checkpoint(path, checkpoint);
    EXPECT_EQ(read_trained_on(path), both);
}

TEST(ReadTrainedOn, FindsNothingInWhatCannotBeRead) {
    const test::TempDir directory;
    const std::string path = directory.path() + "/weights";
    EXPECT_EQ(read_trained_on(path), TrainedOn());
    for (const std::string header :
         {R"({"__metadata__": {"tutti_normalisation": 7}})",
          R"({"__metadata__": {"tutti_training_data": []}})", R"({"__metadata__": []})", "[]"}) {
        test::write_file(path,
                         std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header);
        EXPECT_EQ(read_trained_on(path), TrainedOn()) << header;
    }
}

}  // namespace
}  // namespace tutti
