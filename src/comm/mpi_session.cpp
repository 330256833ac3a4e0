#include "tutti/comm/mpi_session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <vector>

#include "end_watch.hpp"
#include "exchange_lane.hpp"
#include "exchange_limits.hpp"
#include "host_layout.hpp"
#include "host_star.hpp"
#include "mpi_communicator.hpp"
#include "mpi_transfer.hpp"
#include "shared_lane.hpp"
#include "start_watch.hpp"
#include "tutti/base/stop_signal.hpp"
#include "two_level_lane.hpp"
#include "waiting.hpp"

namespace tutti {

namespace {

/// All ranks on one host: through shared memory. The same number on each host: sums of the hosts first. Each
/// on a host of its own, or few ranks, also where those of a host cannot map each other's memory: direct
/// messages. Otherwise MPI's all-reduce.
void choose_lane(const std::shared_ptr<Handle>& world, int local_size) {
    const auto take = [&](decltype(world->make_lane) make) {
        world->lane = make(world);
        world->make_lane = world->lane ? make : nullptr;
        return world->lane != nullptr;
    };
    const bool apart = world->layout && world->layout->local_size == 1;
    if (local_size == world->size && take(make_shared_lane)) return;
    if (take(make_two_level_lane)) return;
    if (apart || world->size <= most_mixed_ranks) take(make_exchange_lane);
}

/// The lowest of the ranks of `host`, in MPI_COMM_WORLD.
int first_rank(const Handle& world, MPI_Comm host) {
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    world.check(MPI_Comm_group(world.comm, &all), "MPI_Comm_group");
    world.check(MPI_Comm_group(host, &some), "MPI_Comm_group");
    const int first = 0;
    int rank = 0;
    world.check(MPI_Group_translate_ranks(some, 1, &first, all, &rank), "MPI_Group_translate_ranks");
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    return rank;
}

std::shared_ptr<const HostPeers> find_host_peers(const std::shared_ptr<Handle>& world) {
    if (world->size == 1) return nullptr;
    const ProcessPlace own = place_of_process(getpid(), mpi_host());
    std::vector<ProcessPlace> places(static_cast<std::size_t>(world->size));
    MpiTransfer gather(world, "comparing hosts", 1, DType::i64);
    world->check(MPI_Iallgather(&own, sizeof own, MPI_BYTE, places.data(), sizeof own, MPI_BYTE, world->comm,
                                gather.add()),
                 "MPI_Iallgather");
    gather.wait();
    return std::make_shared<HostPeers>(world->rank, mpi_host(), places);
}

/// Of every rank, as far as a name is not longer than those of most hosts.
std::vector<std::string> gather_hosts(const std::shared_ptr<Handle>& world) {
    constexpr std::size_t longest = 64;
    if (world->size == 1) return {};
    std::string own = mpi_host();
    own.resize(longest);
    std::string all(longest * static_cast<std::size_t>(world->size), '\0');
    MpiTransfer gather(world, "comparing hosts", 1, DType::i64);
    world->check(MPI_Iallgather(own.data(), longest, MPI_BYTE, all.data(), longest, MPI_BYTE, world->comm,
                                gather.add()),
                 "MPI_Iallgather");
    gather.wait();
    std::vector<std::string> hosts;
    for (std::size_t first = 0; first < all.size(); first += longest) {
        const std::string name = all.substr(first, longest);
        hosts.push_back(name.substr(0, name.find('\0')));
    }
    return hosts;
}

}  // namespace

struct MpiSession::State {
    int rank = 0;
    int size = 1;
    int local_rank = 0;
    int local_size = 1;
    std::shared_ptr<Handle> world;  ///< with the lane of MPI_COMM_WORLD
    std::shared_ptr<const HostPeers> peers;
    std::vector<std::string> hosts;   ///< by rank
    std::shared_ptr<PeerWatch> star;  ///< null: not the lowest of a host, or one host
    std::shared_ptr<RollCall> roll;   ///< null: one rank
    std::shared_ptr<CallPulse> pulse;
    std::unique_ptr<CallWatch> call_watch;  ///< null: one rank; looks at what is above
    int exceptions = std::uncaught_exceptions();
    double mpi_end = 0;

    void look_after_calls(double timeout);
};

void MpiSession::State::look_after_calls(double timeout) {
    world->job->pulse = pulse = std::make_shared<CallPulse>();
    pulse->set_timeout(timeout);
    call_watch = std::make_unique<CallWatch>(name_of_rank(rank, hosts), *pulse, [this] {
        const std::string lost = peers ? peers->ended() : "";
        return lost.empty() && star ? star->departed(true) : lost;
    });
}

MpiSession::MpiSession(const StartPatience& patience) : state_(std::make_unique<State>()) {
    state_->mpi_end = patience.mpi_end;
    std::optional<StartWatch> watch;
    const Environment environment = current_environment();
    const LaunchFacts launch = read_launch(environment);
    if (launch.world_size.value_or(1) > 1) watch.emplace(environment, patience);
    // A program that nobody launched would start a daemon of Open MPI (orted) for ranks it might spawn later:
    // 0.13 to 0.25 s of the start. Where /tmp is full that fails, and the program with it; under ulimit -f 1
    // it takes all memory. In Open MPI 4.1 ("ompi_info --all"); other launches do not look at it.
    setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
    // Such programs would all make one folder, /tmp/ompi.HOST.UID/jf.0, and remove it at their ends: one that
    // starts while another ends may not find what it has just made, and fail.
    if (launch.launcher == Launcher::plain) setenv("OMPI_MCA_orte_create_session_dirs", "0", 0);
    int provided = MPI_THREAD_SINGLE;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        throw LaunchError("MPI_Init_thread failed",
                          "start a single rank without mpirun to see whether MPI works");
    if (provided < MPI_THREAD_FUNNELED)
        throw LaunchError("this MPI library allows no threads besides its own: " + library_version(),
                          "use one with MPI_THREAD_FUNNELED");

    check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", 0);
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &state_->rank), "MPI_Comm_rank", 0);
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &state_->size), "MPI_Comm_size", state_->rank);

    MPI_Comm host = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, state_->rank, MPI_INFO_NULL, &host),
              "MPI_Comm_split_type", state_->rank);
    check_mpi(MPI_Comm_rank(host, &state_->local_rank), "MPI_Comm_rank", state_->rank);
    check_mpi(MPI_Comm_size(host, &state_->local_size), "MPI_Comm_size", state_->rank);
    state_->world = make_handle(MPI_COMM_WORLD, patience.peers);
    state_->world->crowded = state_->local_size > sysconf(_SC_NPROCESSORS_ONLN);
    state_->world->lanes = std::make_shared<Lanes>();
    // First of all who is who, for whatever goes wrong from here on.
    state_->world->job->peers = state_->peers = find_host_peers(state_->world);
    state_->world->job->hosts = state_->hosts = gather_hosts(state_->world);
    const int first_of_host = first_rank(*state_->world, host);
    state_->world->job->star = state_->star =
        watch_hosts(state_->world, state_->hosts, first_of_host, state_->local_size == state_->size);
    if (state_->size > 1) state_->world->layout = host_layout(state_->world, first_of_host);
    check_mpi(MPI_Comm_free(&host), "MPI_Comm_free", state_->rank);
    watch.reset();
    if (state_->size > 1)
        state_->world->job->roll = state_->roll =
            std::make_shared<RollCall>(MPI_COMM_WORLD, state_->rank, state_->size);
    if (state_->size > 1) state_->look_after_calls(patience.peers);
    choose_lane(state_->world, state_->local_size);
}

MpiSession::~MpiSession() {
    // MPI_Finalize waits for all ranks; peers that know nothing of this exception would never come.
    if (std::uncaught_exceptions() != state_->exceptions) return;
    std::fflush(stdout);
    leave_on_term();
    state_->call_watch.reset();
    const EndWatch watch(fmt::format("rank {} on {}", rank(), host()), size() > 1 ? state_->mpi_end : 0);
    MPI_Finalize();
}

int MpiSession::rank() const {
    return state_->rank;
}
int MpiSession::size() const {
    return state_->size;
}
int MpiSession::local_rank() const {
    return state_->local_rank;
}
int MpiSession::local_size() const {
    return state_->local_size;
}
std::string MpiSession::host() const {
    return mpi_host();
}

std::string MpiSession::library_version() {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "unknown MPI";
    const std::string version(text.data());
    return version.substr(0, version.find_first_of("\r\n"));
}

std::unique_ptr<Communicator> MpiSession::world(double timeout, Notice notice) {
    auto handle = make_handle(MPI_COMM_WORLD, timeout, std::numeric_limits<int>::max(), std::move(notice));
    handle->job->peers = state_->peers;
    handle->job->hosts = state_->hosts;
    handle->job->star = state_->star;
    handle->job->roll = state_->roll;
    handle->job->pulse = state_->pulse;
    if (state_->pulse) state_->pulse->set_timeout(timeout);
    handle->lanes = state_->world->lanes;
    handle->lane = state_->world->lane;
    handle->layout = state_->world->layout;
    handle->make_lane = state_->world->make_lane;
    handle->crowded = state_->world->crowded;
    return make_mpi_communicator(std::move(handle));
}

void MpiSession::bare_all_reduce(std::span<float> buffer) {
    constexpr std::size_t largest = std::numeric_limits<int>::max();
    const CallPulse::Turn turn(state_->pulse.get());
    for (std::size_t first = 0; first < buffer.size(); first += largest)
        check_mpi(MPI_Allreduce(MPI_IN_PLACE, buffer.data() + first,
                                static_cast<int>(std::min(largest, buffer.size() - first)), MPI_FLOAT,
                                MPI_SUM, MPI_COMM_WORLD),
                  "MPI_Allreduce", state_->rank);
}

}  // namespace tutti
