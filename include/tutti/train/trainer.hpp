#pragma once
// The training loop.

#include <memory>
#include <optional>
#include <string>

#include "tutti/base/config.hpp"
#include "tutti/base/log.hpp"
#include "tutti/comm/communicator.hpp"
#include "tutti/device/device.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/input/geography.hpp"
#include "tutti/train/checkpoint.hpp"
#include "tutti/train/run_directory.hpp"

namespace tutti {

/// What a run needs. All references must outlive the Trainer.
struct TrainingJob {
    const Config& config;
    Device& device;
    Communicator& gradients;  ///< carries the buckets
    Communicator&
        control;  ///< carries step sums, agreement and evaluation; another communicator of the same ranks
    Log& log;
    RunDirectory* directory;  ///< rank 0's; null on the others, and before Trainer::write_to
    const Dataset& train;
    const Dataset* val;  ///< null: no evaluation
    /// What checkpoints keep: the config as it was given, where `config` is what it stands for on these
    /// ranks. Null: `config`.
    const Config* given = nullptr;
    /// Of `val`. Null: it is not known where on the earth its places are.
    const Geography* geography = nullptr;
    /// resume() follows, so that model.init_from is not read, which need not be there any more.
    bool resumes = false;
    /// labels_fingerprint() of `train`, where that is known (input/data_fingerprint.hpp); else empty.
    std::string labels = {};
};

struct TrainingResult {
    ExitCode code = ExitCode::done;  ///< done, or requeue after a signal or at the end of run.walltime
    Progress progress;
    bool time_is_over = false;  ///< run.walltime is why it stopped
    bool had_finished = false;  ///< the checkpoint that was resumed was already the end
    std::string to_go_on;       ///< then: the setting that would train longer
    std::string last_eval;      ///< the last "eval" row (JSON), or empty
};

/// One run on one rank, from the first step to the last checkpoint; every rank calls the same methods in the
/// same order. Errors that all ranks share are thrown as AgreedError on every rank.
class Trainer {
  public:
    /// check_training must have passed. Builds the model and its arenas and fills them with initial weights
    /// (model.init_from, where the job does not resume; else the default of run.seed), the same on every
    /// rank. Writes nothing, so that a job without a directory can be tried first: what memory or the device
    /// refuses leaves nothing behind.
    explicit Trainer(const TrainingJob& job);
    ~Trainer();

    /// Rank 0 reads the checkpoint, the others receive it. Refuses a changed model or optimizer (UsageError,
    /// agreed). Writes nothing: what is refused leaves the run as it is. Before write_to.
    void resume(const std::string& checkpoint_path);

    /// Gives rank 0 its directory, where the job had none yet (null on the others), and logs what was built.
    /// After a resume the directory keeps what came up to that step, and puts later checkpoints aside.
    void write_to(RunDirectory* directory);

    /// On rank 0: what checkpoints keep, and a run directory should: the job's, with the model.init_from that
    /// a resumed run began with.
    const Config& recorded_config() const;

    /// Whether the resumed run, in its directory, is finished, evaluated and saved: run() changes nothing.
    bool has_nothing_left() const;

    /// Trains until the configured end, a stop signal, or so long that it ends within run.walltime. Rank 0
    /// writes metrics and checkpoints. The error for a lost peer begins with the place: "in step 1234 (epoch
    /// 3): …".
    TrainingResult run();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
