#include "pretrained_encoder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "support/error_message.hpp"
#include "support/temp_dir.hpp"
#include "tutti/base/error.hpp"
#include "tutti/device/device.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/checkpoint.hpp"
#include "tutti/train/weights_file.hpp"

namespace tutti {
namespace {

using test::message_of;

NamedTensor filled(const std::string& name, const Shape& shape, float value) {
    const std::vector<float> values(static_cast<std::size_t>(shape.count()), value);
    NamedTensor tensor{name, DType::f32, shape, {}};
    tensor.bytes.resize(values.size() * sizeof(float));
    std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    return tensor;
}

GraphSpec small_classifier() {
    return build_videomae({8, 8, 12}, {.tubelet = {.frames = 4, .size = 4}, .dim = 8, .depth = 2, .heads = 2},
                          3);
}

/// Those of VideoMAE's pre-training (PretrainVisionTransformer.state_dict()) for that encoder; each tensor of
/// the encoder is full of its number.
std::vector<NamedTensor> autoencoder() {
    std::vector<NamedTensor> tensors{filled("encoder.patch_embed.proj.weight", {8, 3, 2, 4, 4}, 1),
                                     filled("encoder.patch_embed.proj.bias", {8}, 2)};
    const auto add_block = [&](const std::string& block, std::int64_t dim) {
        for (const auto& [name, shape] :
             std::vector<std::pair<std::string, Shape>>{{"norm1.weight", {dim}},
                                                        {"norm1.bias", {dim}},
                                                        {"attn.q_bias", {dim}},
                                                        {"attn.v_bias", {dim}},
                                                        {"attn.qkv.weight", {3 * dim, dim}},
                                                        {"attn.proj.weight", {dim, dim}},
                                                        {"attn.proj.bias", {dim}},
                                                        {"norm2.weight", {dim}},
                                                        {"norm2.bias", {dim}},
                                                        {"mlp.fc1.weight", {4 * dim, dim}},
                                                        {"mlp.fc1.bias", {4 * dim}},
                                                        {"mlp.fc2.weight", {dim, 4 * dim}},
                                                        {"mlp.fc2.bias", {dim}}})
            tensors.push_back(filled(block + name, shape, static_cast<float>(tensors.size() + 1)));
    };
    add_block("encoder.blocks.0.", 8);
    add_block("encoder.blocks.1.", 8);
    tensors.push_back(filled("encoder.norm.weight", {8}, -1));
    tensors.push_back(filled("encoder.norm.bias", {8}, -1));
    tensors.push_back(filled("encoder_to_decoder.weight", {4, 8}, -1));
    tensors.push_back(filled("mask_token", {1, 1, 4}, -1));
    add_block("decoder.blocks.0.", 4);
    tensors.push_back(filled("decoder.norm.weight", {4}, -1));
    tensors.push_back(filled("decoder.norm.bias", {4}, -1));
    tensors.push_back(filled("decoder.head.weight", {96, 4}, -1));
    tensors.push_back(filled("decoder.head.bias", {96}, -1));
    return tensors;
}

TEST(PretrainedEncoder, IsToldByItsPatches) {
    EXPECT_TRUE(is_masked_autoencoder(autoencoder()));
    const NamedTensor classifiers = filled("patch_embed.proj.weight", {1}, 0);
    EXPECT_FALSE(is_masked_autoencoder(std::vector{classifiers}));
    std::vector<NamedTensor> both = autoencoder();
    both.push_back(classifiers);
    EXPECT_FALSE(is_masked_autoencoder(both));
    for (const char* name : {"head.bias", "fc_norm.weight"}) {
        both.back().name = name;
        EXPECT_FALSE(is_masked_autoencoder(both)) << "which head is meant?";
    }
    EXPECT_FALSE(is_masked_autoencoder(std::vector{filled("encoder.blocks.0.norm1.weight", {8}, 0)}));
    EXPECT_FALSE(is_masked_autoencoder({}));
}

TEST(PretrainedEncoder, BeginsAClassifierWhoseHeadIsNew) {
    const auto device = make_cpu_device(1);
    Graph graph(small_classifier(), *device, DType::f32, 1);
    graph.initialize(5);
    const std::vector<NamedTensor> before = graph.save();
    const std::vector<NamedTensor> file = autoencoder();
    graph.load(classifier_weights(file, graph.save()), "pretrain.h5");
    const std::vector<NamedTensor> after = graph.save();
    std::size_t fresh = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
        const auto from = std::ranges::find(file, "encoder." + after[i].name, &NamedTensor::name);
        if (after[i].name.starts_with("fc_norm.") || after[i].name.starts_with("head.")) {
            EXPECT_EQ(after[i].bytes, before[i].bytes) << after[i].name;
            ++fresh;
        } else {
            ASSERT_NE(from, file.end()) << after[i].name;
            EXPECT_EQ(after[i].bytes, from->bytes) << after[i].name;
        }
    }
    EXPECT_EQ(fresh, 4u);
    EXPECT_EQ(after.size(), 2u + 2 * 13 + 4);
}

TEST(PretrainedEncoder, IsTakenFromACheckpointOfAPreTraining) {
    const test::TempDir directory;
    const std::string path = directory.path() + "/step-00000001.h5";
    Checkpoint checkpoint;
    checkpoint.model = autoencoder();
    save_checkpoint(path, checkpoint);
    const std::vector<NamedTensor> read = read_weights(path);
    ASSERT_TRUE(is_masked_autoencoder(read));
    const auto device = make_cpu_device(1);
    Graph graph(small_classifier(), *device, DType::f32, 1);
    graph.load(classifier_weights(read, graph.save()), path);
    const std::vector<NamedTensor> loaded = graph.save();
    for (const NamedTensor& tensor : autoencoder())
        if (tensor.name.starts_with("encoder.blocks.")) {
            const auto found = std::ranges::find(loaded, tensor.name.substr(8), &NamedTensor::name);
            ASSERT_NE(found, loaded.end()) << tensor.name;
            EXPECT_EQ(found->bytes, tensor.bytes) << tensor.name;
        }
}

std::string refusal(const std::vector<NamedTensor>& file) {
    const auto device = make_cpu_device(1);
    Graph graph(small_classifier(), *device, DType::f32, 1);
    return message_of<DataError>([&] { graph.load(classifier_weights(file, graph.save()), "pretrain.h5"); });
}

TEST(PretrainedEncoder, ThatDoesNotFitIsRefusedWithTheList) {
    std::vector<NamedTensor> tensors = autoencoder();
    std::erase_if(tensors, [](const NamedTensor& one) { return one.name == "encoder.blocks.1.norm2.bias"; });
    tensors[1].shape = {4, 2};
    // Neither of a classifier nor of VideoMAE's pre-training: none of them is dropped or taken in silence.
    for (const char* name :
         {"encoder.head.weight", "encoder.fc_norm.bias", "teacher.weight", "encoder.blocks.2.norm1.bias"})
        tensors.push_back(filled(name, {3}, 0));
    EXPECT_EQ(refusal(tensors),
              "pretrain.h5 does not fit the model (missing: blocks.1.norm2.bias, not in the model: "
              "blocks.2.norm1.bias, encoder.fc_norm.bias, encoder.head.weight, teacher.weight, of "
              "another shape: patch_embed.proj.bias [4, 2] instead of [8]); use weights that were saved from "
              "this model, under PyTorch's names");
}

TEST(PretrainedEncoder, OfALocatorIsAResidualNetworkWithoutItsHead) {
    const auto device = make_cpu_device(1);
    Graph network(build_resnet("resnet18", {32, 32, 3}, "imagenet", 10), *device, {DType::f32}, 1),
        locator(build_locator("resnet18", {32, 32, 3}), *device, {DType::f32}, 1);
    network.initialize(1);
    locator.initialize(2);
    const std::vector<NamedTensor> before = locator.save(), given = network.save();
    ASSERT_TRUE(is_residual_network(given));
    EXPECT_FALSE(is_residual_network(before));
    locator.load(locator_weights(given, before), "resnet18.h5");
    std::size_t taken = 0;
    const std::vector<NamedTensor> after = locator.save();
    for (std::size_t i = 0; i < after.size(); ++i) {
        const std::string& name = after[i].name;
        if (!name.starts_with("backbone.")) {
            EXPECT_EQ(after[i].bytes, before[i].bytes) << name;
            continue;
        }
        const auto source = std::ranges::find(given, name.substr(9), &NamedTensor::name);
        ASSERT_NE(source, given.end()) << name;
        EXPECT_EQ(after[i].bytes, source->bytes) << name;
        ++taken;
    }
    EXPECT_EQ(taken + 2, given.size()) << "fc.weight and fc.bias are left";
    EXPECT_EQ(locator_parts({"fc", "conv1", "decoder.0"}, given),
              (std::vector<std::string>{"backbone.conv1", "decoder.0"}));
    const std::vector<NamedTensor> lenet{filled("conv1.weight", {1}, 0), filled("fc1.weight", {1}, 0)};
    EXPECT_FALSE(is_residual_network(lenet));
}

}  // namespace
}  // namespace tutti
