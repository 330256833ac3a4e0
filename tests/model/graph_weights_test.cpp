#include <cstring>

#include "graph_fixture.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

const NamedTensor& find(const std::vector<NamedTensor>& tensors, const std::string& name) {
    for (const NamedTensor& tensor : tensors)
        if (tensor.name == name) return tensor;
    throw std::out_of_range(name);
}

class GraphWeights : public ::testing::Test {
  protected:
    std::unique_ptr<Device> device_ = make_cpu_device(1);
    Graph graph_{build_lenet({8, 8, 1}, 3), *device_, DType::f32, 2};
};

TEST_F(GraphWeights, AreSavedUnderPyTorchsNamesShapesAndOrder) {
    std::vector<std::string> names;
    for (const NamedTensor& tensor : graph_.save())
        names.push_back(tensor.name + " " + to_string(tensor.shape));
    EXPECT_EQ(names, (std::vector<std::string>{"conv1.weight [32, 1, 3, 3]", "conv1.bias [32]",
                                               "conv2.weight [64, 32, 3, 3]", "conv2.bias [64]",
                                               "fc1.weight [128, 256]", "fc1.bias [128]",
                                               "fc2.weight [3, 128]", "fc2.bias [3]"}));
}

TEST_F(GraphWeights, LoadGivesBackWhatWasSaved) {
    graph_.initialize(5);
    const auto saved = graph_.save();
    Graph other(build_lenet({8, 8, 1}, 3), *device_, DType::f32, 2);
    other.load(saved, "memory");
    const auto again = other.save();
    for (std::size_t i = 0; i < saved.size(); ++i) EXPECT_EQ(saved[i].bytes, again[i].bytes) << saved[i].name;
}

/// torch.nn.Flatten and BatchNorm1d see the features of an image of 2 x 3 with 2 channels in the order (C, H,
/// W), and ours lie in (H, W, C).
TEST_F(GraphWeights, OfABatchNormBehindAFlattenedImageAreInPyTorchsOrder) {
    constexpr std::int64_t height = 2, width = 3, channels = 2, features = height * width * channels;
    const std::vector<LayerSpec> layers = {{"flatten", {}, "0"}, {"batch_norm2d", {}, "1"}};
    Graph graph(build_sequential({height, width, channels}, layers), *device_, DType::f64, 1);
    graph.initialize(0);
    std::vector<NamedTensor> given;
    const auto value = [](std::size_t tensor, std::int64_t feature) {
        return static_cast<double>(tensor + 1) + 0.1 * static_cast<double>(feature);
    };
    for (const std::string name : {"1.weight", "1.bias", "1.running_mean", "1.running_var"}) {
        NamedTensor tensor{name, DType::f64, {features}, {}};
        tensor.bytes.resize(features * sizeof(double));
        for (std::int64_t i = 0; i < features; ++i)
            reinterpret_cast<double*>(tensor.bytes.data())[i] = value(given.size(), i);
        given.push_back(std::move(tensor));
    }
    graph.load(given, "memory");
    for (const NamedTensor& tensor : given)
        EXPECT_EQ(find(graph.save(), tensor.name).bytes, tensor.bytes) << tensor.name;

    std::vector<double> x(features), y(features);
    for (std::int64_t i = 0; i < features; ++i)
        x[static_cast<std::size_t>(i)] = std::sin(static_cast<double>(i));
    device_->copy_from_host(graph.input(1), x.data());
    device_->copy_to_host(y.data(), graph.forward(1, {Phase::evaluate, 0, 0, {}}));
    for (std::int64_t h = 0; h < height; ++h)
        for (std::int64_t w = 0; w < width; ++w)
            for (std::int64_t c = 0; c < channels; ++c) {
                const auto here = static_cast<std::size_t>((h * width + w) * channels + c);
                const std::int64_t feature = (c * height + h) * width + w;
                const double expected =
                    (x[here] - value(2, feature)) / std::sqrt(value(3, feature) + 1e-5) * value(0, feature) +
                    value(1, feature);
                EXPECT_NEAR(y[here], expected, 1e-12) << h << ' ' << w << ' ' << c;
            }
}

TEST_F(GraphWeights, InitialValuesFollowSeedAndBound) {
    graph_.initialize(5);
    const auto first = graph_.save();
    graph_.initialize(5);
    EXPECT_EQ(find(graph_.save(), "fc1.weight").bytes, find(first, "fc1.weight").bytes);
    graph_.initialize(6);
    EXPECT_NE(find(graph_.save(), "fc1.weight").bytes, find(first, "fc1.weight").bytes);

    const NamedTensor& weight = find(first, "fc1.weight");
    const auto* values = reinterpret_cast<const float*>(weight.bytes.data());
    const auto count = static_cast<std::size_t>(weight.shape.count());
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_LE(std::abs(values[i]), 1.0 / 16);
        sum += values[i];
        squares += values[i] * values[i];
    }
    const double n = static_cast<double>(count);
    // Uniform on ±1/16: variance 1/768; the mean of n values deviates by 1/√(768 n).
    EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(768 * n));
    EXPECT_NEAR(squares / n, 1.0 / 768, 0.05 / 768);
}

TEST_F(GraphWeights, InitialValuesAreTheSameInBothPrecisions) {
    Graph wide(build_lenet({8, 8, 1}, 3), *device_, DType::f64, 2);
    wide.initialize(5);
    graph_.initialize(5);
    const auto a = wide.save(), b = graph_.save();
    for (std::size_t t = 0; t < a.size(); ++t)
        for (std::int64_t i = 0; i < a[t].shape.count(); ++i)
            ASSERT_EQ(static_cast<float>(reinterpret_cast<const double*>(a[t].bytes.data())[i]),
                      reinterpret_cast<const float*>(b[t].bytes.data())[i]);
}

TEST_F(GraphWeights, LoadListsAllThatDoesNotFitAndChangesNothing) {
    graph_.initialize(5);
    auto tensors = graph_.save();
    tensors[0].name = "conv9.weight";
    tensors[1].shape = {31};
    tensors[1].bytes.resize(31 * 4);
    tensors[3].bytes.assign(tensors[3].bytes.size(), std::byte{0});
    try {
        graph_.load(tensors, "weights.h5");
        FAIL() << "must throw";
    } catch (const DataError& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("weights.h5"), std::string::npos) << text;
        EXPECT_NE(text.find("missing: conv1.weight"), std::string::npos) << text;
        EXPECT_NE(text.find("not in the model: conv9.weight"), std::string::npos) << text;
        EXPECT_NE(text.find("conv1.bias [31] instead of [32]"), std::string::npos) << text;
    }
    EXPECT_NE(find(graph_.save(), "conv2.bias").bytes, tensors[3].bytes);
}

}  // namespace
}  // namespace tutti
