#pragma once
// A model in fp64 or another arithmetic, with all that lanes of an evaluation need.

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tutti/train/evaluation.hpp"

namespace tutti::test {

class EvaluationLanes {
  public:
    using MakeLoss = std::function<std::unique_ptr<Loss>(Device&, DType)>;

    /// One lane at least, with weights of `seed`.
    EvaluationLanes(int lanes, const std::function<GraphSpec()>& spec, Arithmetic arithmetic,
                    std::int64_t seed, std::int64_t batch_size, const DatasetInfo& info,
                    const DataConfig& config, const MakeLoss& make_loss) {
        auto device = make_cpu_device(std::max(lanes, 1));
        Device& first = *device;
        Graph graph(spec(), first, arithmetic, batch_size);
        graph.initialize(seed);
        const auto add = [&](std::unique_ptr<Device> of, Graph&& with) {
            lanes_.push_back(
                std::make_unique<Lane>(std::move(of), std::move(with), batch_size, info, config, make_loss));
        };
        add(std::move(device), std::move(graph));
        while (static_cast<int>(lanes_.size()) < lanes) {
            auto of_lane = first.make_lane();
            Graph again(spec(), *of_lane, arithmetic, lanes_.front()->graph);
            add(std::move(of_lane), std::move(again));
        }
    }

    Device& device() { return *lanes_.front()->device; }
    Graph& graph() { return lanes_.front()->graph; }
    std::vector<EvaluationLane> all() const {
        std::vector<EvaluationLane> given;
        for (const auto& lane : lanes_) given.push_back({lane->graph, *lane->loss, lane->stage});
        return given;
    }

  private:
    struct Lane {
        Lane(std::unique_ptr<Device> of, Graph&& with, std::int64_t batch_size, const DatasetInfo& info,
             const DataConfig& config, const MakeLoss& make_loss)
            : device(std::move(of)),
              graph(std::move(with)),
              loss(make_loss(*device, graph.compute())),
              stage(*device, info, config, graph.compute(), batch_size) {}
        std::unique_ptr<Device> device;
        Graph graph;
        std::unique_ptr<Loss> loss;
        BatchStage stage;
    };

    std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace tutti::test
