#include <fmt/format.h>

#include "command_line.hpp"
#include "doctor/all_reduce_check.hpp"
#include "doctor/gpu_sums.hpp"
#include "doctor/host.hpp"
#include "doctor/report.hpp"
#include "job_start.hpp"
#include "rank_placement.hpp"

namespace tutti {
namespace {

// Long enough for the slowest network that anybody trains on.
constexpr double agreement_timeout = 60;

int examine(const JobStart& start, bool json) {
    using namespace doctor;
    const auto world = start.session.world(agreement_timeout);
    const auto places = exchange_places(*world, start.session);
    JobFacts job;
    const JobStart patient = start.over(*world);
    const SelectedDevice selected = select_as_training(patient, job.gpus);
    RankFacts mine = own_facts(world->rank(), places[static_cast<std::size_t>(world->rank())],
                               start.environment, {selected.name, selected.uuid});
    mine.clock_ahead = clock_ahead(*world);

    job.launcher = to_string(read_launch(start.environment).launcher);
    if (start.session.bootstrap() == Bootstrap::mpi)
        job.launch_mismatch = mismatch_with_mpi(start.environment, world->size()).value_or("");
    for (const std::string& text : all_gather_text(*world, to_json(mine)))
        job.ranks.push_back(rank_facts_from_json(text));
    job.all_reduce = check_all_reduce(*world, *world);
    const std::exception_ptr lost = check_gpu_sums(patient, selected, job.gpus);

    // Every rank judges the same facts; the sums of each are its own.
    const std::vector<Problem> problems = judge(job);
    std::int64_t unhealthy = problems.empty() ? 0 : 1;
    if (!lost) world->all_reduce(view_of(std::span(&unhealthy, 1)), ReduceOp::max).wait();
    if (world->rank() == 0) {
        fmt::print("{}",
                   json ? json_report(job, problems, hints(job)) : text_report(job, problems, hints(job)));
        std::fflush(stdout);
    }
    if (lost) std::rethrow_exception(lost);
    return static_cast<int>(unhealthy == 0 ? ExitCode::done : ExitCode::failed);
}

}  // namespace

int doctor_command(const Arguments& arguments) {
    OptionParser parser(
        "Where the ranks are, whether their libraries agree, whether the network adds correctly and how "
        "fast, of GPUs as of hosts, and each problem with its fix, and hints at what could be faster. Start "
        "it as the training would be "
        "started. Exit code: 0 "
        "healthy, 1 problems found.",
        "trainer doctor");
    bool json = false;
    parser.add_flag("--json", json, "print one JSON object and nothing else");
    if (!parse_arguments(parser, arguments)) return 0;
    return run_on_all_ranks(
        call_of(parser), {}, [&](const JobStart& start) { return examine(start, json); }, Singletons::allow);
}

}  // namespace tutti
