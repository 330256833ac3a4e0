#include "job_start.hpp"

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

// Long enough for a slow file system to bring the config; the run then has its own time-out.
constexpr double start_timeout = 300;

}  // namespace

std::unique_ptr<Communicator> JobStart::timed_world(double timeout) const {
    return session.world(timeout, [&to = log](const std::string& diagnosis) { to.error(diagnosis); });
}

int run_on_all_ranks(const std::function<int(const JobStart&)>& work) {
    const Environment environment = current_environment();
    if (const auto mismatch = mismatch_before_mpi(environment)) throw LaunchError(*mismatch);
    MpiSession session;
    if (const auto mismatch = mismatch_with_mpi(environment, session.size())) throw LaunchError(*mismatch);

    Log log(session.rank(), session.size(), session.host(), LogLevel::info);
    const auto world = session.world(start_timeout);
    try {
        return work({session, *world, log, environment});
    } catch (const AgreedError& error) {
        if (session.rank() == 0) log.error(error.what());
        return static_cast<int>(error.code());
    } catch (const std::exception& error) {
        const auto* typed = dynamic_cast<const Error*>(&error);
        const ExitCode code = typed ? typed->code() : ExitCode::failed;
        log.error(error.what());
        if (session.size() > 1) world->abort(code);
        return static_cast<int>(code);
    }
}

Recipe share_recipe(Communicator& world, const std::function<Recipe()>& read) {
    Recipe recipe;
    together_on_first_rank(world, "reading the config", [&] { recipe = read(); });
    recipe.text = broadcast_text(world, recipe.text, 0);
    recipe.source = broadcast_text(world, recipe.source, 0);
    return recipe;
}

}  // namespace tutti
