// What is left behind of an update that ended the run: RUN_DIR/failed-step-NNNNNNNN.h5.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

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
        return training.update(clock_decisions(), unwritten);
    } catch (const AgreedError& error) {
        if (!training.failed_step) throw;
        throw AgreedError(error.code(), error.what() + record_failed_step(error.what()));
    }
}

std::string Trainer::Impl::record_failed_step(const std::string& reason) {
    std::string hint;
    const auto record = [&] {
        if (!job.directory) return;
        const std::size_t bytes = graph.all_parameters().bytes();
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
            checkpoint.config = to_yaml(recorded);
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

void Trainer::Impl::end_after_skipped() {
    const std::string weights =
        progress.step == 0 ? "the weights are those that the run began with"
                           : fmt::format("the weights have not changed since step {}", progress.step);
    const std::string reason = fmt::format("step {}: {}; {}{}", training.failed_step->step,
                                           training.skipped_series.describe(), weights, after_skipped());
    throw AgreedError(ExitCode::failed, reason + record_failed_step(reason));
}

std::string Trainer::Impl::after_skipped() const {
    const std::string changes = fmt::format(" with a lower optim.lr or{} optim.clip_norm, or check the data",
                                            config.optim.clip_norm ? "" : " with");
    const std::string anew = "; start anew (run.resume=never)" + changes;
    if (!job.directory) return anew;
    std::vector<std::int64_t> saved;
    try {
        saved = job.directory->checkpoint_steps();
    } catch (const Error&) {
        return anew;  // the peers are on their way to the record, and why the run ends is known
    }
    std::string text;
    if (!saved.empty() && saved.back() == progress.step)
        text = " and are in the last checkpoint, " + job.directory->checkpoint_path(saved.back());
    else if (resumed_step == progress.step)
        text = " and are those of " + resumed_from;
    else if (saved.empty())
        text = "; there is no checkpoint";
    else
        text = fmt::format(" and are in no checkpoint: the last one, {}, is of step {}",
                           job.directory->checkpoint_path(saved.back()), saved.back());
    // A resume would refuse another optimizer.
    const auto good = std::lower_bound(saved.begin(), saved.end(), progress.step);
    if (good == saved.begin()) return text + anew;
    return text + "; begin a new run, in a run.dir of its own, with " +
           shell_word("model.init_from=" + job.directory->checkpoint_path(*std::prev(good))) + " and" +
           changes;
}

}  // namespace tutti
