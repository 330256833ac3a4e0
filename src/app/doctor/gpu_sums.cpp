#include "gpu_sums.hpp"

#include <span>
#include <string>

#include "../device_choice.hpp"
#include "../gradient_path.hpp"
#include "all_reduce_check.hpp"
#include "tutti/device/cuda_module.hpp"

namespace tutti::doctor {
namespace {

// Less than ranks wait for one that has failed here, so that all come to the end of the check.
constexpr double check_timeout = 30;

}  // namespace

SelectedDevice select_as_training(const JobStart& start, GpuFacts& facts) {
    std::int64_t able = CudaModule().usable() ? 1 : 0;
    start.world.all_reduce(view_of(std::span(&able, 1)), ReduceOp::sum).wait();
    facts.able_ranks = static_cast<int>(able);
    SelectedDevice selected;
    try {
        selected = select_device(start, Config{}, 1, sharing_under(start.environment, Backend::automatic));
    } catch (const AgreedError& error) {
        facts.refusal = error.what();
    }
    facts.why_cpu = selected.notice;
    return selected;
}

std::exception_ptr check_gpu_sums(const JobStart& start, const SelectedDevice& selected, GpuFacts& facts) {
    if (!selected.gpu || start.world.size() == 1) return nullptr;
    try {
        together(start.world, "checking the sums of the GPUs' memory", [&] {
            // Of an order of calls of its own: a rank that fails goes on to tell the others of it.
            const auto timed = start.session.world(check_timeout);
            const auto control = timed->duplicate();
            std::string note;
            const auto gradients =
                make_gradients_communicator(start.over(*control), {.timeout = check_timeout}, selected.gpu,
                                            *control, [&](const std::string& why) { note = why; });
            // NCCL has notes of its own, on the memory that it gives.
            if (gradients->backend() != "nccl") facts.why_no_nccl = note;
            tell_errors(*gradients, [&] {
                facts.all_reduce = check_all_reduce(*gradients, *control, selected.device.get());
            });
        });
    } catch (const AgreedError& error) {
        facts.failure = error.what();
    } catch (const Error& error) {
        facts.failure = error.what();
        return std::current_exception();
    }
    return nullptr;
}

}  // namespace tutti::doctor
