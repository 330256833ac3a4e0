// Residual networks against PyTorch, in fp64 and from the same weights and batches; the reference and the
// rules by which both draw their numbers are in tests/parity/make_resnet_reference.py.
#include <gtest/gtest.h>

#include <fstream>

#include "parity_numbers.hpp"
#include "tutti/model/loss.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/optimizer.hpp"

namespace tutti {
namespace {

using Json = nlohmann::json;

const Json& reference() {
    static const Json document = Json::parse(std::ifstream(TUTTI_PARITY_FOLDER "/resnet_reference.json"));
    return document;
}

class ResnetParity : public ::testing::TestWithParam<std::size_t> {
  protected:
    void draw_batch(std::mt19937& source) {
        for (double& pixel : graph_.input(batch_).span<double>())
            pixel = 2 * test::parity_uniform(source) - 1;
        for (std::int64_t& label : labels_) label = static_cast<std::int64_t>(source() % 10);
    }

    double step(const StepContext& context) {
        const TensorView labels = view_of(std::span(labels_));
        const TensorView logits = graph_.forward(batch_, context);
        const LossSums sums = loss_->forward(logits, labels, graph_.output_gradient(batch_));
        if (context.phase == Phase::train) {
            loss_->backward(labels, 1 / sums.weight, graph_.output_gradient(batch_));
            graph_.backward(batch_, context, {});
        }
        return sums.loss / sums.weight;
    }

    const Json run_ = reference()["runs"][GetParam()];
    const std::int64_t batch_ = run_["batch"], side_ = run_["side"];
    std::unique_ptr<Device> device_ = make_cpu_device(2);
    Graph graph_{
        build_resnet(run_["model"], {side_, side_, run_["channels"]}, run_["stem"], reference()["classes"]),
        *device_, DType::f64, batch_};
    std::unique_ptr<Loss> loss_ = make_softmax_cross_entropy(*device_, DType::f64);
    std::vector<std::int64_t> labels_ = std::vector<std::int64_t>(static_cast<std::size_t>(batch_));
};

TEST_P(ResnetParity, NamesAreThoseOfPyTorch) {
    std::vector<std::string> names;
    for (const NamedTensor& tensor : graph_.save()) names.push_back(tensor.name);
    EXPECT_EQ(names, run_["names"].get<std::vector<std::string>>());
}

TEST_P(ResnetParity, LossesGradientsAndRunningStatisticsAreThoseOfPyTorch) {
    test::set_parity_weights(graph_);
    const OptimConfig config = test::parity_sgd(run_["sgd"]);
    const auto optimizer = make_optimizer(config, graph_, *device_);
    std::mt19937 source(2);
    const Json& losses = run_["losses"];
    for (std::size_t number = 0; number < losses.size(); ++number) {
        draw_batch(source);
        const double expected = losses[number];
        EXPECT_NEAR(step({}), expected, 1e-6 * expected) << "step " << number + 1;
        if (number == 0)
            for (NamedTensor& tensor : graph_.save_arena(graph_.gradient_arena(), ""))
                test::expect_parity(tensor, run_["gradients"].at(tensor.name), 1e-9);
        optimizer->step(config.lr, static_cast<std::int64_t>(number) + 1);
    }
    std::size_t buffers = 0;
    for (NamedTensor& tensor : graph_.save())
        if (tensor.name.find("running") != std::string::npos) {
            test::expect_parity(tensor, run_["buffers"].at(tensor.name), 1e-6);
            ++buffers;
        }
    EXPECT_EQ(buffers, run_["buffers"].size());
    StepContext evaluation;
    evaluation.phase = Phase::evaluate;
    const double expected = run_["evaluation"];
    EXPECT_NEAR(step(evaluation), expected, 1e-6 * expected);
}

INSTANTIATE_TEST_SUITE_P(Models, ResnetParity, ::testing::Range(std::size_t{0}, reference()["runs"].size()),
                         [](const auto& one) {
                             return reference()["runs"][one.param]["model"].template get<std::string>();
                         });

}  // namespace
}  // namespace tutti
