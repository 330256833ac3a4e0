// The temporal transformer against PyTorch, in fp64 and from the same weights and batches; the reference and
// the rules by which both draw their numbers are in tests/parity/make_temporal_reference.py.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "parity_numbers.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

nlohmann::json read_reference() {
    return nlohmann::json::parse(std::ifstream(TUTTI_PARITY_FOLDER "/temporal_reference.json"));
}

class TemporalParity : public testing::TestWithParam<const char*> {
  protected:
    TemporalTransformerOptions options() const {
        const nlohmann::json& of = reference_[GetParam()];
        TemporalTransformerOptions o;
        o.features = reference_["features"].get<std::vector<std::int64_t>>();
        o.cross = GetParam() == std::string("cross");
        o.dim = reference_["dim"];
        o.heads = reference_["heads"];
        o.mlp_ratio = reference_["mlp_ratio"];
        o.depth = of["depth"];
        o.text_depth = of.value("text_depth", 1);
        o.cross_depth = of.value("cross_depth", 1);
        return o;
    }

    /// The next batch.
    void draw(std::span<double> input, std::vector<float>& wanted) {
        for (std::int64_t n = 0; n < batch_; ++n)
            for (std::int64_t t = 0; t < seconds_; ++t)
                for (std::int64_t f = 0; f <= width_; ++f) {
                    const bool exists = t < seconds_ - 5 * n;
                    const double value = f == width_ ? 1 : 2 * test::parity_uniform(source_) - 1;
                    input[static_cast<std::size_t>((n * seconds_ + t) * (width_ + 1) + f)] =
                        exists ? value : 0;
                }
        for (std::size_t i = 0; i < wanted.size(); i += 2) {
            const bool inside = test::parity_uniform(source_) > 0.5;
            const auto a = static_cast<float>(test::parity_uniform(source_)),
                       b = static_cast<float>(test::parity_uniform(source_));
            wanted[i] = inside ? 8 * a : -1;
            wanted[i + 1] = inside ? 8 * b : -1;
        }
    }

    const nlohmann::json reference_ = read_reference();
    const std::int64_t seconds_ = reference_["seconds"], batch_ = reference_["batch"];
    const std::int64_t width_ = [this] {
        const auto features = reference_["features"].get<std::vector<std::int64_t>>();
        return std::accumulate(features.begin(), features.end(), std::int64_t{0});
    }();
    std::mt19937 source_{2};
};

TEST_P(TemporalParity, LossesAndGradientsAreThoseOfPyTorch) {
    const nlohmann::json& reference = reference_[GetParam()];
    const auto device = make_cpu_device(2);
    Graph graph(build_temporal_transformer({seconds_, width_ + 1}, options()), *device, DType::f64, batch_);
    const auto loss = make_segment_loss(*device, DType::f64, {});
    std::vector<float> rows(static_cast<std::size_t>(2 * seconds_ * batch_));
    const TensorView wanted{reinterpret_cast<std::byte*>(rows.data()), DType::f32, {batch_, 2 * seconds_}};
    test::expect_parity_of_training(graph, *device, *loss, wanted, reference,
                                    [&] { draw(graph.input(batch_).span<double>(), rows); });
}

INSTANTIATE_TEST_SUITE_P(Fusions, TemporalParity, testing::Values("early", "cross"),
                         [](const auto& fusion) { return std::string(fusion.param); });

}  // namespace
}  // namespace tutti
