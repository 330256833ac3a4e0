#include "new_weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "support/error_message.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

NamedTensor tensor(const std::string& name, std::size_t bytes) {
    return {name, DType::f32, {static_cast<std::int64_t>(bytes / 4)}, std::vector<std::byte>(bytes)};
}

std::vector<std::string> sizes(std::vector<NamedTensor> tensors) {
    std::ranges::sort(tensors, {}, &NamedTensor::name);
    std::vector<std::string> result;
    for (const NamedTensor& one : tensors)
        result.push_back(one.name + " " + std::to_string(one.bytes.size() / 4));
    return result;
}

const std::vector<NamedTensor> from_file{tensor("conv1.weight", 4), tensor("fc.bias", 400),
                                         tensor("fc.weight", 800), tensor("fc2.weight", 12)};
const std::vector<NamedTensor> of_model{tensor("conv1.weight", 8), tensor("fc.bias", 40),
                                        tensor("fc2.weight", 16)};

using Texts = std::vector<std::string>;

TEST(new_weights, what_a_part_names_comes_from_the_model) {
    const Texts parts{"fc"};
    EXPECT_EQ(sizes(with_new_weights(from_file, of_model, parts)),
              (Texts{"conv1.weight 1", "fc.bias 10", "fc2.weight 3"}));
}

TEST(new_weights, a_part_may_be_a_whole_name_or_name_what_the_model_lacks) {
    const Texts parts{"fc.weight", "conv1.weight"};
    EXPECT_EQ(sizes(with_new_weights(from_file, of_model, parts)),
              (Texts{"conv1.weight 2", "fc.bias 100", "fc2.weight 3"}));
}

TEST(new_weights, what_begins_anew_and_is_frozen_is_doubted) {
    std::vector<Parameter> frozen(2);
    frozen[0].name = "conv1.weight";
    frozen[1].name = "fc.weight";
    const Texts parts{"fc", "fc", "fc2"};
    ModelConfig model;
    const std::string said =
        "what begins anew and is frozen keeps the random values that it begins with, here fc; ";
    EXPECT_EQ(doubt_about_frozen(parts, frozen, model), said + "name it in model.freeze_except");
    model.freeze = {"conv1", "fc"};
    EXPECT_EQ(doubt_about_frozen(parts, frozen, model), said + "leave it out of model.freeze");
    EXPECT_EQ(doubt_about_frozen(Texts{"fc2"}, frozen, model), "");
}

TEST(new_weights, without_parts_all_is_the_files) {
    EXPECT_EQ(sizes(with_new_weights(from_file, of_model, {})), sizes(from_file));
}

TEST(new_weights, a_part_that_names_nothing_is_refused_with_a_near_one) {
    for (const std::string part : {"conv", "fc.weigh", "fc."}) {
        const Texts parts{"fc", part};
        const std::string said =
            test::message_of<UsageError>([&] { with_new_weights(from_file, of_model, parts); });
        EXPECT_NE(said.find("model.init_except: " + part + " names no weights"), std::string::npos) << said;
    }
    const Texts near{"conv2"};
    const std::string said =
        test::message_of<UsageError>([&] { with_new_weights(from_file, of_model, near); });
    EXPECT_NE(said.find("did you mean conv1?"), std::string::npos) << said;
}

TEST(NewWeights, ThoseThatAreNotFiniteAreRefused) {
    const auto put = [](NamedTensor one, std::size_t place, auto value) {
        std::memcpy(one.bytes.data() + place * sizeof(value), &value, sizeof(value));
        return one;
    };
    NamedTensor doubles = tensor("d", 16), whole = tensor("i", 16);
    doubles.dtype = DType::f64;
    whole.dtype = DType::i64;
    whole.shape = doubles.shape = {2};
    EXPECT_NO_THROW(
        require_finite(std::vector{tensor("a", 8), doubles, put(whole, 0, std::nan(""))}, "x.h5"));
    EXPECT_EQ(
        test::message_of<DataError>([&] {
            require_finite(std::vector{tensor("a", 8), put(tensor("b", 12), 2, INFINITY)}, "x.h5");
        }),
        "x.h5: b has 1 of 3 values that are not finite; give weights of a training that did not diverge");
    EXPECT_THROW(require_finite(std::vector{put(doubles, 1, std::nan(""))}, "x.h5"), DataError);
}

TEST(new_weights, layers_that_do_not_fit_are_named_once_in_the_models_order) {
    EXPECT_EQ(parts_that_do_not_fit(from_file, of_model), (Texts{"conv1", "fc", "fc2"}));
    EXPECT_EQ(parts_that_do_not_fit(of_model, of_model), Texts{});
    const std::vector<NamedTensor> blocks{tensor("blocks.0.fc.weight", 8), tensor("blocks.0.fc.bias", 8),
                                          tensor("norm", 4)};
    EXPECT_EQ(parts_that_do_not_fit({}, blocks), (Texts{"blocks.0.fc", "norm"}));
    std::vector<NamedTensor> with_pooler = of_model;
    with_pooler.push_back(tensor("pooler.dense.weight", 8));
    with_pooler.push_back(tensor("pooler.dense.bias", 8));
    EXPECT_EQ(parts_that_do_not_fit(with_pooler, of_model), Texts{"pooler.dense"});
}

}  // namespace
}  // namespace tutti
