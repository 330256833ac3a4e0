#include "tutti/comm/gpu_communicator.hpp"

#include <utility>

#include "cuda_comm.hpp"
#include "gpu_transport.hpp"
#include "nccl_communicator.hpp"
#include "tutti/base/steady_seconds.hpp"
#include "tutti/comm/compression.hpp"

namespace tutti {
namespace {

/// What an entry point of the module makes.
template <class Made>
std::shared_ptr<Made> make(void* entry, GpuStream compute) {
    const auto function = reinterpret_cast<Made* (*)(GpuStream, const char**)>(entry);
    const char* problem = nullptr;
    std::shared_ptr<Made> made(function(compute, &problem));
    if (!made) throw RunError(problem);
    return made;
}

}  // namespace

std::optional<std::string> choose_staging(Backend asked, Communicator& bootstrap,
                                          const std::function<void()>& open_nccl_here) {
    if (asked == Backend::mpi || asked == Backend::gloo) return "";
    std::string problem;
    try {
        open_nccl_here();
    } catch (const Error& error) {
        problem = error.what();
    }
    Failure failure;
    if (!problem.empty()) failure = {ExitCode::failed, problem};
    try {
        agree(bootstrap, failure, "opening NCCL");
    } catch (const AgreedError& error) {
        if (asked == Backend::nccl) throw;
        return std::string("gradients go through host memory: ") + error.what();
    }
    return std::nullopt;
}

std::unique_ptr<Communicator> make_gpu_communicator(
    const DistributedConfig& config, const GpuEntries& entries, std::unique_ptr<Communicator> bootstrap,
    const std::string& host, const std::function<void(const std::string&)>& notice,
    const std::function<void(const std::string&)>& last_words) {
    std::shared_ptr<NcclApi> nccl;
    const auto staging = choose_staging(config.backend, *bootstrap, [&] { nccl = open_nccl(); });
    if (staging) {
        if (bootstrap->rank() == 0 && !staging->empty()) notice(*staging);
        std::shared_ptr<HostStaging> copies;
        together(*bootstrap, "pinning host memory",
                 [&] { copies = make<HostStaging>(entries.make_staging, entries.compute_stream); });
        const bool compressed = config.compress == Compress::bf16 && bootstrap->size() > 1;
        auto hosts = compressed ? make_compressing_communicator(std::move(bootstrap)) : std::move(bootstrap);
        return make_staged_communicator(std::move(hosts), std::move(copies));
    }
    std::shared_ptr<GpuSideStream> stream;
    together(*bootstrap, "making a stream",
             [&] { stream = make<GpuSideStream>(entries.make_side_stream, entries.compute_stream); });
    NcclSettings settings{config.timeout, host, steady_seconds, notice};
    const std::shared_ptr<Communicator> hosts = std::move(bootstrap);
    settings.say = last_words;
    if (config.compress == Compress::bf16)
        settings.transit.reset(reinterpret_cast<Bf16Transit* (*)()>(entries.make_bf16_transit)());
    settings.leave = [hosts, last_words](const std::string& message, ExitCode code) {
        last_words(message);
        hosts->abort(code);
    };
    return make_nccl_communicator(std::move(nccl), std::move(stream), hosts, settings);
}

}  // namespace tutti
