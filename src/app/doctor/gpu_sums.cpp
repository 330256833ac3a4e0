#include "gpu_sums.hpp"

#include "../device_choice.hpp"
#include "../gradient_path.hpp"
#include "all_reduce_check.hpp"

namespace tutti::doctor {
namespace {

// Less than ranks wait for one that has failed here, so that all come to the end of the check.
constexpr double check_timeout = 30;

}  // namespace

SelectedDevice select_as_training(const JobStart& start, GpuFacts& facts) {
    SelectedDevice selected;
    try {
        selected = select_device(start, Config{}, 1, sharing_under(start.environment, Backend::automatic));
    } catch (const AgreedError& error) {
        facts.refusal = error.what();
    }
    facts.able_ranks = selected.able_ranks;
    facts.why_cpu = selected.notice;
    return selected;
}

void check_gpu_sums(const JobStart& start, const SelectedDevice& selected, GpuFacts& facts) {
    if (!selected.gpu || start.world.size() == 1) return;
    try {
        together(start.world, "checking the sums of the GPUs' memory", [&] {
            // One of its own: a rank that fails goes on to tell the others of it.
            const auto control = start.session.world(check_timeout);
            const auto gradients = make_gradients_communicator(
                start.over(*control), {.timeout = check_timeout}, selected.gpu, *control,
                [&](const std::string& why) { facts.why_no_nccl = why; });
            tell_errors(*gradients, [&] {
                facts.all_reduce = check_all_reduce(*gradients, *control, selected.device.get());
            });
        });
    } catch (const AgreedError& error) {
        facts.failure = error.what();
    }
}

}  // namespace tutti::doctor
