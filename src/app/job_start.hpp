#pragma once
// What the subcommands that run on all ranks have in common: from the launch to the exit code.

#include <functional>
#include <memory>
#include <string>

#include "tutti/base/log.hpp"
#include "tutti/comm/launch.hpp"
#include "tutti/comm/mpi_session.hpp"

namespace tutti {

/// What a job has before it knows its config.
struct JobStart {
    MpiSession& session;
    Communicator& world;  ///< patient enough for a slow file system to bring the config
    Log& log;
    const Environment& environment;

    /// A communicator of all ranks that waits `timeout` seconds and logs its diagnosis after SIGTERM.
    std::unique_ptr<Communicator> timed_world(double timeout) const;
};

/// Checks the launch, starts MPI and the log, and runs `work` on every rank. An error that all ranks share is
/// logged once and gives every rank its exit code; any other is logged by its rank and ends the whole job
/// with its code. Throws LaunchError.
int run_on_all_ranks(const std::function<int(const JobStart&)>& work);

/// A config as text, and what messages call it.
struct Recipe {
    std::string text, source;
};
/// Rank 0 reads, so that one file decides; the others receive what it got. Collective; throws AgreedError.
Recipe share_recipe(Communicator& world, const std::function<Recipe()>& read);

}  // namespace tutti
