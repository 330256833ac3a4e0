#pragma once
// What the subcommands that run on all ranks have in common: from the launch to the exit code.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/log.hpp"
#include "tutti/comm/session.hpp"

namespace tutti {

/// What a job has before it knows its config.
struct JobStart {
    Session& session;
    Communicator& world;  ///< waits as the start does
    Log& log;
    const Environment& environment;

    /// A communicator of all ranks by the config's backend that waits its timeout and logs its diagnosis
    /// after SIGTERM. Collective. Throws AgreedError when the launch or the build does not have the backend.
    std::unique_ptr<Communicator> timed_world(const DistributedConfig& config) const;

    /// The same job over another communicator of its ranks, which must outlive it. Once there is a config,
    /// ranks wait for each other as it says: to open large data may take one of them longer than `world` is
    /// patient.
    JobStart over(Communicator& other) const { return {session, other, log, environment}; }
};

/// What to do where the launch started several ranks and MPI sees one (see mismatch_with_mpi).
enum class Singletons { refuse, allow };

/// What distributed.timeout is, where this rank can tell before the ranks have met: from `overrides`, else
/// from the file `config` (if any; a pipe is for rank 0 to read, once). Nothing where that is the default,
/// which is for ranks that compute, where it cannot be told, and for one rank.
std::optional<double> timeout_before_start(const std::string& config,
                                           const std::vector<std::string>& overrides);

/// `call`: what this rank's command line asks for (see call_of). Checks the launch, starts the session and
/// the log, sees that every rank makes rank 0's call with rank 0's build, and runs `work` on every rank. An
/// error that all ranks share is logged once and gives every rank its exit code; any other is logged by its
/// rank and ends the whole job with its code. timeout: seconds that ranks wait for each other, but at least
/// 30, until `work` waits by a time-out of its own; 0: for ever; nothing: as StartPatience has it. Throws
/// LaunchError.
int run_on_all_ranks(const std::string& call, std::optional<double> timeout,
                     const std::function<int(const JobStart&)>& work,
                     Singletons singletons = Singletons::refuse);

/// Ends the whole job where a rank's command line is refused: the first rank says its own error at once, that
/// of another rank is told once, with its rank and host. A collective of run_on_all_ranks, so that a rank
/// whose command line is good hears of it before it begins. Returns the exit code.
int refuse_on_all_ranks(const UsageError& error);

/// A config as text, and what messages call it.
struct Recipe {
    std::string text, source;
};
/// Rank 0 reads, so that one file decides; the others receive what it got, and need not see the file.
/// `names`: what this rank's command line names. A rank that names another file than rank 0, or the same one
/// in other words, reads its own, for require_same_settings to compare. Collective; throws AgreedError.
Recipe share_recipe(Communicator& world, const std::string& names, const std::function<Recipe()>& read);

}  // namespace tutti
