#include "job_start.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "build.hpp"
#include "command_line.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/host_name.hpp"
#include "tutti/base/standard_error.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/comm/gloo.hpp"
#include "tutti/comm/network.hpp"
#include "version.h"

namespace tutti {
namespace {

// Ranks that a launcher starts together come at once; one started by hand, alone, has nothing to wait for.
constexpr double refusal_timeout = 10;

// Whatever the run's time-out: hosts that load the program from a slow file system begin that far apart.
constexpr double shortest_start = 30;

/// How long the start waits where distributed.timeout is `given`.
StartPatience patience_for(std::optional<double> given) {
    // By default long enough for a slow file system to bring the config; the run then has its own time-out.
    if (!given) return {};
    const double seconds = *given > 0 ? std::max(*given, shortest_start) : 0;
    return {seconds, seconds, seconds, *given < seconds ? *given : 0};
}

/// What a rank brings to the start of a job.
struct Arrival {
    std::string call;                     ///< empty: unknown, as it was refused
    const UsageError* refused = nullptr;  ///< what is wrong with its command line
    std::optional<double> timeout = {};   ///< seconds; see run_on_all_ranks
};

/// The first thing that ranks do together: a launcher may start a program of its own for each.
void require_same_call(Communicator& world, const Arrival& mine) {
    const Build build{TUTTI_VERSION, TUTTI_COMMIT};
    const std::string call_of_rank_0 = broadcast_text(world, mine.call, 0);
    const Build build_of_rank_0{broadcast_text(world, build.version, 0),
                                broadcast_text(world, build.commit, 0)};
    together(world, "reading the command line", [&] {
        if (mine.refused) throw UsageError(*mine.refused);
        if (!call_of_rank_0.empty() && mine.call != call_of_rank_0)
            throw UsageError("this rank runs " + mine.call + ", but rank 0 " + call_of_rank_0,
                             "start all ranks with the same command line");
        if (differ(build, build_of_rank_0))
            throw UsageError(
                "this rank runs " + to_string(build) + ", but rank 0 " + to_string(build_of_rank_0),
                "install the same build on every host");
    });
}

/// Who is missing is told here; MPI_Finalize would wait for all, and not know. What has ended with an error,
/// or saved after a signal, keeps its code.
void meet_at_end(Session& session, const StartPatience& patience, int code) {
    const auto world = session.world(patience.mpi_end);
    try {
        world->barrier();
    } catch (const Error&) {
        if (code == static_cast<int>(ExitCode::done)) throw;
        world->abort(static_cast<ExitCode>(code));
    }
}

int run_job(const Environment& environment, const std::function<int(const JobStart&)>& work,
            Singletons singletons, const Arrival& arrival) {
    const UsageError* const refused = arrival.refused;
    const bool meets_alone = refused && bootstrap_of(environment) == Bootstrap::rendezvous;
    StartPatience patience = patience_for(arrival.timeout);
    if (meets_alone) patience.peers = refusal_timeout;
    const auto session_of_job = start_session(
        environment, patience, [](const std::string& text) { write_standard_error(text + '\n'); });
    Session& session = *session_of_job;
    if (session.bootstrap() == Bootstrap::mpi && singletons == Singletons::refuse)
        if (const auto mismatch = mismatch_with_mpi(environment, session.size()))
            throw LaunchMismatch(*mismatch);

    Log log(session.rank(), session.size(), session.host(), LogLevel::info);
    const auto world = session.world(patience.peers);
    const auto run = [&] {
        try {
            require_same_call(*world, arrival);
            const int code = work({session, *world, log, environment});
            keep_exit_code(code);
            return code;
        } catch (const AgreedError& error) {
            keep_exit_code(static_cast<int>(error.code()));
            if (session.rank() == 0 && !refused) log.error(error.what());
            return static_cast<int>(error.code());
        }
    };
    try {
        const int code = run();
        if (session.bootstrap() == Bootstrap::mpi && session.size() > 1) meet_at_end(session, patience, code);
        return code;
    } catch (const std::exception& error) {
        const auto* typed = dynamic_cast<const Error*>(&error);
        const ExitCode code = typed ? typed->code() : ExitCode::failed;
        keep_exit_code(static_cast<int>(code));
        log.error(error.what());
        if (session.size() > 1) world->abort(code);
        return static_cast<int>(code);
    }
}

}  // namespace

std::unique_ptr<Communicator> JobStart::timed_world(const DistributedConfig& config) const {
    const Session::Notice notice = [&to = log](const std::string& diagnosis) { to.error(diagnosis); };
    const bool has_mpi = session.bootstrap() == Bootstrap::mpi;
    std::unique_ptr<Communicator> result;
    together(world, "connecting the ranks", [&] {
        if (config.backend == Backend::mpi && !has_mpi && world.size() > 1)
            throw UsageError("distributed.backend is mpi, but " +
                                 to_string(read_launch(environment).launcher) + " brings no MPI",
                             "set distributed.backend: auto, or start it with mpirun");
        if (config.backend == Backend::gloo && !gloo_absence().empty())
            throw UsageError("distributed.backend is gloo, but " + gloo_absence(),
                             "set distributed.backend: auto, or install libgloo-dev and build again");
    });
    if (config.backend == Backend::gloo && has_mpi) {
        const bool one_host = session.local_size() == session.size();
        return make_gloo_communicator(world, one_host ? "127.0.0.1" : reachable_address(session.host()),
                                      config.timeout, notice);
    }
    return session.world(config.timeout, notice);
}

std::optional<double> timeout_before_start(const std::string& config,
                                           const std::vector<std::string>& overrides) {
    if (read_launch(current_environment()).world_size.value_or(1) == 1) return {};
    const auto speaks_of_it = [](const std::string& text) {
        return text.find("timeout") != std::string::npos;
    };
    std::vector<std::string> settings;
    std::copy_if(overrides.begin(), overrides.end(), std::back_inserter(settings), speaks_of_it);
    const auto read = [&](const std::string& text) {
        const double timeout = parse_config(text, config, settings).distributed.timeout;
        return timeout == DistributedConfig().timeout ? std::nullopt : std::optional(timeout);
    };
    // What is wrong with the config is for the ranks to say together.
    try {
        if (!settings.empty()) return read("");
        std::error_code ignored;
        if (config.empty() || !std::filesystem::is_regular_file(config, ignored)) return {};
        const std::string text = read_config_text(config, ConfigText::of_run);
        if (speaks_of_it(text)) return read(text);
    } catch (const std::exception&) {
    }
    return {};
}

int run_on_all_ranks(const std::string& call, std::optional<double> timeout,
                     const std::function<int(const JobStart&)>& work, Singletons singletons) {
    return run_job(current_environment(), work, singletons, {call, nullptr, timeout});
}

int refuse_on_all_ranks(const UsageError& error) {
    const Environment environment = current_environment();
    const LaunchFacts launch = read_launch(environment);
    const bool first = launch.rank.value_or(0) == 0;
    const std::string text = std::string(error.what()) + '\n';
    if (first) write_standard_error("error: " + text);
    if (launch.world_size.value_or(1) > 1) try {
            run_job(environment, {}, Singletons::refuse, {"", &error});
        } catch (const LaunchMismatch&) {
            // Ranks that do not know of each other: one line is enough.
            if (!first && speaks_for_launch()) write_standard_error("error: " + text);
        } catch (const Error&) {
            // The others cannot be told; they will miss this rank.
            if (!first)
                write_standard_error("error: rank " + std::to_string(*launch.rank) + " on " + host_name() +
                                     ": " + text);
        }
    return static_cast<int>(error.code());
}

Recipe share_recipe(Communicator& world, const std::string& names, const std::function<Recipe()>& read) {
    Recipe recipe;
    together_on_first_rank(world, "reading the config", [&] { recipe = read(); });
    recipe.text = broadcast_text(world, recipe.text, 0);
    recipe.source = broadcast_text(world, recipe.source, 0);
    const bool has_its_own = broadcast_text(world, names, 0) != names;
    together(world, "reading the config", [&] {
        if (has_its_own) recipe = read();
    });
    return recipe;
}

}  // namespace tutti
