// The locator against PyTorch, in fp64 and from the same weights and batches; the reference and the rules by
// which both draw their numbers are in tests/parity/make_locator_reference.py.
#include <gtest/gtest.h>

#include <fstream>

#include "parity_numbers.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

TEST(LocatorParity, LossesAndGradientsAreThoseOfPyTorch) {
    const auto reference =
        nlohmann::json::parse(std::ifstream(TUTTI_PARITY_FOLDER "/locator_reference.json"));
    const std::int64_t batch = reference["batch"], side = reference["side"];
    const auto device = make_cpu_device(2);
    Graph graph(build_locator("resnet18", {side, side, reference["channels"]}), *device, DType::f64, batch);
    const auto loss = make_location_loss(*device, DType::f64, {});
    std::mt19937 source(2);
    std::vector<float> rows(static_cast<std::size_t>(3 * batch));
    const TensorView wanted{reinterpret_cast<std::byte*>(rows.data()), DType::f32, {batch, 3}};
    test::expect_parity_of_training(graph, *device, *loss, wanted, reference, [&] {
        for (double& pixel : graph.input(batch).span<double>()) pixel = 2 * test::parity_uniform(source) - 1;
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const double drawn = test::parity_uniform(source);
            rows[i] = i % 3 == 0 ? (drawn > 1.0 / 3 ? 1.0F : 0.0F)
                                 : static_cast<float>(side) * static_cast<float>(drawn);
        }
    });
}

}  // namespace
}  // namespace tutti
