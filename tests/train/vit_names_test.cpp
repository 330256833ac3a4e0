// Vision transformers of PyTorch's libraries, under their own names
// (tests/parity/make_vit_names_reference.py).
#include "vit_names.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "tutti/device/device.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/weights_file.hpp"

namespace tutti {
namespace {

NamedTensor of_value(const std::string& name, float value) {
    NamedTensor tensor{name, DType::f32, Shape{1}, std::vector<std::byte>(sizeof value)};
    std::memcpy(tensor.bytes.data(), &value, sizeof value);
    return tensor;
}

std::vector<std::string> names_after(const std::vector<std::string>& names) {
    std::vector<NamedTensor> tensors;
    for (const std::string& name : names) tensors.push_back(of_value(name, 1));
    take_timms_names(tensors);
    std::vector<std::string> result;
    for (const NamedTensor& tensor : tensors) result.push_back(tensor.name);
    return result;
}

using Names = std::vector<std::string>;

/// norm_eps as the library has it.
void expect_its_logits(const std::string& library, double norm_eps) {
    SCOPED_TRACE(library);
    std::map<std::string, NamedTensor> others;
    std::vector<NamedTensor> weights;
    for (NamedTensor& tensor : read_weights(TUTTI_PARITY_FOLDER "/vit_" + library + ".safetensors"))
        if (tensor.name == "pixels" || tensor.name == "logits")
            others[tensor.name] = std::move(tensor);
        else
            weights.push_back(std::move(tensor));
    const auto device = make_cpu_device(1);
    Graph graph(
        build_vit({8, 8, 3},
                  {.patch = 4, .dim = 8, .depth = 2, .heads = 2, .mlp_ratio = 2, .norm_eps = norm_eps}, 3),
        *device, DType::f64, 2);
    graph.load(weights, library);
    const NamedTensor &pixels = others.at("pixels"), &logits = others.at("logits");
    const auto input = graph.input(2).span<double>();
    ASSERT_EQ(input.size(), pixels.bytes.size());
    for (std::size_t i = 0; i < input.size(); ++i)
        input[i] = static_cast<double>(static_cast<float>(std::to_integer<int>(pixels.bytes[i])) / 255.0F);
    const auto output = graph.forward(2, {}).span<double>();
    ASSERT_EQ(output.size() * sizeof(double), logits.bytes.size());
    for (std::size_t i = 0; i < output.size(); ++i) {
        double expected = 0;
        std::memcpy(&expected, logits.bytes.data() + i * sizeof expected, sizeof expected);
        EXPECT_NEAR(output[i], expected, 1e-11) << i;
    }
}

TEST(VitNames, WeightsOfEachLibraryGiveItsLogits) {
    expect_its_logits("timm", 1e-6);
    expect_its_logits("torchvision", 1e-6);
    expect_its_logits("hugging_face", 1e-12);  // a file of save_pretrained()
    expect_its_logits("transformers", 1e-12);  // a state_dict
}

TEST(VitNames, OtherWeightsKeepTheirNames) {
    const Names resnet{"conv1.weight", "layer1.0.conv1.weight", "encoder.layer.0.output.dense.weight"};
    EXPECT_EQ(names_after(resnet), resnet);
}

TEST(VitNames, WhatHasNoPlaceKeepsItsName) {
    const Names signs{"class_token", "conv_proj.weight"};
    const Names more{"heads.pre_logits.weight", "encoder.layers.encoder_layer_0.more.weight",
                     "encoder.layers.encoder_layer_0"};
    Names all = signs;
    all.insert(all.end(), more.begin(), more.end());
    Names expected{"cls_token", "patch_embed.proj.weight"};
    expected.insert(expected.end(), more.begin(), more.end());
    EXPECT_EQ(names_after(all), expected);
}

TEST(VitNames, TheFirstVersionOfTorchvisionsNamesIsKnown) {
    EXPECT_EQ(
        names_after({"class_token", "conv_proj.weight", "encoder.layers.encoder_layer_11.mlp.linear_1.bias",
                     "encoder.layers.encoder_layer_11.mlp.linear_2.weight"}),
        (Names{"cls_token", "patch_embed.proj.weight", "blocks.11.mlp.fc1.bias",
               "blocks.11.mlp.fc2.weight"}));
}

TEST(VitNames, QueryKeyAndValueAreJoinedWhereAllAreThere) {
    const std::string layer = "vit.encoder.layer.1.attention.attention.";
    std::vector<NamedTensor> tensors{of_value("vit.embeddings.cls_token", 0),
                                     of_value("vit.embeddings.patch_embeddings.projection.weight", 0),
                                     of_value(layer + "value.bias", 3),
                                     of_value(layer + "query.bias", 1),
                                     of_value(layer + "key.bias", 2),
                                     of_value(layer + "query.weight", 4)};
    take_timms_names(tensors);
    ASSERT_EQ(tensors.size(), 4U);
    EXPECT_EQ(tensors[2].name, "blocks.1.attn.query.weight") << "which no model has";
    const NamedTensor& joined = tensors[3];
    EXPECT_EQ(joined.name, "blocks.1.attn.qkv.bias");
    EXPECT_EQ(joined.shape, Shape{3});
    std::vector<float> values(3);
    ASSERT_EQ(joined.bytes.size(), sizeof(float) * values.size());
    std::memcpy(values.data(), joined.bytes.data(), joined.bytes.size());
    EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
}

}  // namespace
}  // namespace tutti
