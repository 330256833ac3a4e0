// What is left behind of an update that ended the run: RUN_DIR/failed-step-NNNNNNNN.h5.

#include "trainer_impl.hpp"
#include "tutti/base/shell_word.hpp"
#include "tutti/base/units.hpp"

namespace tutti {
namespace {

/// A run that has failed is to end within seconds, hashing and a slow disk included.
constexpr std::uint64_t most_bytes = std::uint64_t{2} << 30;

}  // namespace

UpdateReport Trainer::Impl::make_update() {
    try {
        return training.update(time_news(), unwritten);
    } catch (const AgreedError& error) {
        if (!training.failed_step) throw;
        throw AgreedError(error.code(), error.what() + record_failed_step(error.what()));
    }
}

std::string Trainer::Impl::record_failed_step(const std::string& reason) {
    std::string hint;
    const auto record = [&] {
        if (!job.directory) return;
        const std::size_t bytes = graph.parameter_arena().bytes();
        if (bytes > most_bytes) {
            job.log.warning("the failed step is not recorded: its weights are " + format_bytes(bytes) +
                            ", more than " + format_bytes(most_bytes));
            return;
        }
        try {
            // The optimizer has no part in a step up to its gradients, and with zero1 would have to be
            // collected from ranks that are about to end.
            Checkpoint checkpoint;
            checkpoint.progress = progress;
            checkpoint.config = to_yaml(job.given ? *job.given : config);
            checkpoint.model = graph.save();
            checkpoint.failed_step = to_json(*training.failed_step);
            job.directory->require_own();
            const std::string path = job.directory->failed_step_path(training.failed_step->step);
            save_checkpoint(path, checkpoint);
            hint = "; where it comes from: trainer replay " + shell_word(path);
        } catch (const std::exception& problem) {
            job.log.warning(std::string("the failed step is not recorded: ") + problem.what());
        }
    };
    try {
        // So that all ranks end together.
        together_on_first_rank(job.control, "recording the failed step", record);
    } catch (const Error& lost) {
        // Why the run ends is known already, but rank 0, which would say it for all, may be the one that is
        // lost.
        if (rank != 0) job.log.error(reason + "; while that was recorded: " + lost.what());
    }
    return hint;
}

}  // namespace tutti
