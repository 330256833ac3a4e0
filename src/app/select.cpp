#include "select.hpp"

#include <utility>

#include "device_choice.hpp"
#include "tutti/device/cuda_module.hpp"

namespace tutti {
namespace {

/// The module is opened only where a decision needs to know.
std::optional<CudaModule> module_for(const Config& config) {
    std::optional<CudaModule> module;
    if (asks_for_gpus(config.device, config.train.precision)) module.emplace();
    return module;
}

/// What every rank found, by rank.
struct Findings {
    std::vector<GpuOffer> offers;
    std::vector<VisibleGpus> gpus;
};

Findings exchange_findings(const JobStart& start, const CudaModule& module) {
    Findings all;
    all.gpus = exchange_gpus(
        start.world,
        {start.session.host(), module.usable() ? module.visible_gpus() : std::vector<std::string>{}});
    const auto problems = all_gather_text(start.world, module.problem());
    for (std::size_t rank = 0; rank < problems.size(); ++rank)
        all.offers.push_back({all.gpus[rank].host, problems[rank]});
    return all;
}

}  // namespace

SelectedDevice select_device(const JobStart& start, const Config& config, int threads, GpuSharing sharing) {
    const std::optional<CudaModule> module = module_for(config);
    const Findings all = module ? exchange_findings(start, *module) : Findings{};
    DeviceDecision decision;
    SelectedDevice selected;
    together(start.world, "opening the device", [&] {
        decision = decide_device(config.device, config.train.precision, all.offers);
        if (!module || !decision.cuda) {
            selected.device = make_cpu_device(threads);
            selected.device->set_notice([&log = start.log](const std::string& text) { log.warning(text); });
            return;
        }
        const auto places = assign_gpus(all.gpus, sharing);
        const GpuPlace& mine = places[static_cast<std::size_t>(start.world.rank())];
        const int index = mine.device;
        selected.device = module->make_device(index);
        selected.basis_of_bits = module->basis_of_bits(index);
        selected.name = module->device_name(index);
        selected.uuid = mine.uuid;
        selected.device->set_notice([&log = start.log](const std::string& text) { log.info(text); });
        selected.gpu = GpuEntries{module->make_side_stream(), module->make_staging(),
                                  module->make_bf16_transit(), module->compute_stream(*selected.device)};
    });
    if (module) selected.notice = decision.notice;
    return selected;
}

std::unique_ptr<Device> select_device(const Config& config, int threads) {
    const std::optional<CudaModule> module = module_for(config);
    const GpuOffer offer{"this host", module ? module->problem() : "not asked for"};
    const bool cuda = decide_device(config.device, config.train.precision, std::span(&offer, 1)).cuda;
    return cuda ? module->make_device(0) : make_cpu_device(threads);
}

}  // namespace tutti
