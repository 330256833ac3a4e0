#pragma once
// Errors that a user meets: each carries the exit code of the process and ends with the remedy.

#include <stdexcept>
#include <string>

namespace tutti {

/// Exit codes of `trainer`; a contract with scripts (README, "Exit codes").
enum class ExitCode : int {
    done = 0,
    failed = 1,   ///< the run itself failed: a non-finite loss, an internal error
    usage = 2,    ///< bad command line or config
    launch = 3,   ///< the launcher and MPI disagree about the job
    data = 4,     ///< missing or bad data, labels, weights or checkpoint
    peer = 5,     ///< another rank failed or did not answer in time
    requeue = 75  ///< stopped early on a signal or by run.walltime, checkpoint saved (EX_TEMPFAIL)
};

/// Base of all errors thrown by Tutti. `what()` is "problem; remedy" on one line: the problem names the thing
/// and the place (file, key, sample, rank), the remedy says what to do.
class Error : public std::runtime_error {
  public:
    Error(ExitCode code, const std::string& problem, const std::string& remedy = {})
        : std::runtime_error(remedy.empty() ? problem : problem + "; " + remedy), code_(code) {}
    ExitCode code() const noexcept { return code_; }

  private:
    ExitCode code_;
};

/// The run failed while it computed (exit 1).
struct RunError : Error {
    explicit RunError(const std::string& problem, const std::string& remedy = {})
        : Error(ExitCode::failed, problem, remedy) {}
};
/// Bad command line or config (exit 2).
struct UsageError : Error {
    explicit UsageError(const std::string& problem, const std::string& remedy = {})
        : Error(ExitCode::usage, problem, remedy) {}
};
/// The launcher started something else than what MPI sees (exit 3).
struct LaunchError : Error {
    explicit LaunchError(const std::string& problem, const std::string& remedy = {})
        : Error(ExitCode::launch, problem, remedy) {}
};
/// Missing or bad data, labels, weights or checkpoint (exit 4).
struct DataError : Error {
    explicit DataError(const std::string& problem, const std::string& remedy = {})
        : Error(ExitCode::data, problem, remedy) {}
};
/// A peer failed or timed out (exit 5).
struct PeerError : Error {
    explicit PeerError(const std::string& problem, const std::string& remedy = {})
        : Error(ExitCode::peer, problem, remedy) {}
};

}  // namespace tutti
