#include "select.hpp"

#include <optional>

#include "device_choice.hpp"
#include "tutti/device/cuda_module.hpp"

namespace tutti {
namespace {

/// This rank's GPU, if there is one. The module is opened only where a decision needs to know.
class OwnGpu {
  public:
    OwnGpu(const Config& config, int local_rank) : local_rank_(local_rank) {
        if (asks_for_gpus(config.device, config.train.precision)) module_.emplace();
    }
    std::string problem() const { return module_ ? module_->problem() : "not asked for"; }
    /// The local rank counts over what this process may use: all GPUs of the node, or the one that the
    /// launcher left visible.
    std::unique_ptr<Device> open() const {
        return module_->make_device(local_rank_ % module_->device_count());
    }

  private:
    int local_rank_;
    std::optional<CudaModule> module_;
};

}  // namespace

std::unique_ptr<Device> select_device(const JobStart& start, const Config& config, int threads) {
    if (!asks_for_gpus(config.device, config.train.precision)) return select_device(config, threads);
    const OwnGpu gpu(config, start.session.local_rank());
    std::string problem = gpu.problem();
    if (problem.empty() && start.world.size() > 1)
        problem = "several ranks on GPUs need NCCL, which this version does not have";
    std::vector<GpuOffer> offers;
    const auto hosts = all_gather_text(start.world, start.session.host());
    const auto problems = all_gather_text(start.world, problem);
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) offers.push_back({hosts[rank], problems[rank]});

    DeviceDecision decision;
    std::unique_ptr<Device> device;
    together(start.world, "opening the device", [&] {
        decision = decide_device(config.device, config.train.precision, offers);
        device = decision.cuda ? gpu.open() : make_cpu_device(threads);
    });
    if (!decision.notice.empty()) start.log.info(decision.notice);
    return device;
}

std::unique_ptr<Device> select_device(const Config& config, int threads) {
    const OwnGpu gpu(config, 0);
    const GpuOffer offer{"this host", gpu.problem()};
    const bool cuda = decide_device(config.device, config.train.precision, std::span(&offer, 1)).cuda;
    return cuda ? gpu.open() : make_cpu_device(threads);
}

}  // namespace tutti
