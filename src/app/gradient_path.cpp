#include "gradient_path.hpp"

#include "tutti/comm/compression.hpp"

namespace tutti {

std::unique_ptr<Communicator> make_gradients_communicator(
    const JobStart& start, const DistributedConfig& config, const std::optional<GpuEntries>& gpu,
    Communicator& timed, const std::function<void(const std::string&)>& notice) {
    // A rank alone moves nothing; NCCL is tried where it was asked for.
    const bool moves = timed.size() > 1 || config.backend == Backend::nccl;
    if (!gpu && timed.size() > 1 && config.compress == Compress::bf16)
        return make_compressing_communicator(timed.duplicate());
    if (!gpu || !moves) return timed.duplicate();
    return make_gpu_communicator(
        config, *gpu, timed.duplicate(), start.session.host(),
        [&log = start.log, notice](const std::string& why) { notice ? notice(why) : log.info(why); },
        [&log = start.log](const std::string& why) { log.error(why); });
}

}  // namespace tutti
