#pragma once
// The directory of a run: config.yaml, provenance.json, checkpoints/, metrics.jsonl, log.txt, lock.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

/// Where metrics.jsonl and epochs.jsonl go on: behind updates up to `step`, that update's epoch where it is
/// among the `epochs` that have ended, and its evaluation where it is `evaluated`. What else they have of
/// that step is made again.
struct MetricsEnd {
    std::int64_t step = 0, epochs = 0;
    bool evaluated = false;
};

/// Used by rank 0 alone. Holds an exclusive lock on DIR/lock (an open-file-description lock, so it vanishes
/// with the process; the file says host and process) as long as it lives. A file system without locks is used
/// without one. All members that write throw RunError naming the file and the cause.
class RunDirectory {
  public:
    /// Creates `path` with its parents when missing and locks it. With `fresh` what an earlier run wrote
    /// there moves to old-1/, old-2/, … first; what else is there stays. Where the move is interrupted, what
    /// is left is either the run, with its checkpoints and rows, or rows without a config. Temporaries of a
    /// run that died are removed. Throws UsageError when another process holds the lock (naming host and
    /// process id), where the path is a file or cannot be created or written, and where a file of a run's,
    /// such as config.yaml, is in a directory without any other trace of a run; RunError where there is no
    /// room.
    RunDirectory(const std::string& path, bool fresh);
    ~RunDirectory();
    RunDirectory(const RunDirectory&) = delete;
    RunDirectory& operator=(const RunDirectory&) = delete;

    const std::string& path() const;
    std::string log_path() const;
    /// checkpoints/step-00000042.h5
    std::string checkpoint_path(std::int64_t step) const;
    /// failed-step-00000042.h5: the update that ended the run.
    std::string failed_step_path(std::int64_t step) const;
    /// Steps of the checkpoints that are there, ascending (complete ones: temporaries are ignored).
    std::vector<std::int64_t> checkpoint_steps() const;
    /// Moves the checkpoints of steps after `step`, which belong to a course that is given up, to
    /// old-N/checkpoints; nothing is made where there are none.
    void set_aside_checkpoints_after(std::int64_t step);
    /// Moves all checkpoints and the rows of both files, of another course than the one that begins, to
    /// old-N.
    void set_aside_course();
    /// Before what is there is moved for a run that begins with the checkpoint `file` (absolute): where the
    /// move is interrupted, the next start finds it by noted_origin(). Durable.
    void note_origin(const std::string& file);
    /// From here on config.yaml says it.
    void forget_origin();
    /// Where there is no checkpoint: no row is of the run that begins. What an interrupted move to old-N has
    /// left behind goes to old-N, too; rows of a run that ended before its first checkpoint are removed.
    void begin_rows();
    /// Removes all but the newest `keep` checkpoints (0: keep all) and stale temporaries; never `protect`.
    void prune_checkpoints(std::int64_t keep, std::optional<std::int64_t> protect);

    /// Before something is saved: throws RunError where the directory was removed, moved or replaced since it
    /// was opened, or another run has locked it, whose files must stay its own. checkpoints/ and lock are
    /// made again where only they were removed.
    void require_own();

    /// Atomic (temporary, rename).
    void write_config(const std::string& yaml);
    void write_provenance(const std::string& json);

    /// Appends one line to metrics.jsonl and flushes it to the file; to a new one where it was removed.
    void append_metric(const std::string& json_line);
    /// The same to epochs.jsonl.
    void append_epoch(const std::string& json_line);
    /// Removes rows that come after `end`, and a last line that is cut off (no newline, or no JSON); other
    /// lines stay, whatever they hold. Makes an empty file where there is none. Atomic; both files.
    void cut_metrics(const MetricsEnd& end);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

/// The newest checkpoint in a run directory without locking it; nothing when there is none.
std::optional<std::string> latest_checkpoint(const std::string& run_directory);
/// The file that note_origin() was told, where nothing has made it forget that; else empty.
std::string noted_origin(const std::string& run_directory);
/// The path of the checkpoint of this step there, whether it exists or not.
std::string path_of_checkpoint(const std::string& run_directory, std::int64_t step);

}  // namespace tutti
