#pragma once
// The ranks' batch statistics, added over a communicator.

#include "tutti/comm/communicator.hpp"
#include "tutti/model/layer.hpp"

namespace tutti {

/// The communicator must outlive it, and carries nothing else that ranks issue in different orders.
class BatchStatistics final : public StatisticsReducer {
  public:
    explicit BatchStatistics(Communicator& communicator) : communicator_(communicator) {}
    void sum(const TensorView& values) override {
        try {
            communicator_.all_reduce(values, ReduceOp::sum).wait();
        } catch (const PeerError& error) {
            throw PeerError(std::string("batch statistics: ") + error.what());
        }
    }

  private:
    Communicator& communicator_;
};

}  // namespace tutti
