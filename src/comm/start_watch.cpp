#include "start_watch.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "process_tree.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/host_name.hpp"
#include "tutti/base/last_output.hpp"
#include "tutti/base/standard_error.hpp"

namespace tutti {
namespace {

/// Empty of a process that has ended or belongs to somebody else.
Environment environment_of(const std::filesystem::path& proc, int process) {
    std::ifstream file(proc / std::to_string(process) / "environ");
    Environment result;
    for (std::string entry; std::getline(file, entry, '\0');)
        if (const auto equals = entry.find('='); equals != std::string::npos)
            result.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    return result;
}

/// The launcher's process above this one, where this process may see it; else 0.
int launcher_above(const std::map<int, Process>& processes, int process) {
    for (auto at = processes.find(process); at != processes.end(); at = processes.find(at->second.parent))
        if (starts_ranks(at->second.name)) return at->first;
    return 0;
}

/// All that `proc` shows.
std::map<int, Process> look_at_all(const std::filesystem::path& proc) {
    std::map<int, Process> processes;
    std::error_code failed;
    for (std::filesystem::directory_iterator entry(proc, failed), end; !failed && entry != end;
         entry.increment(failed))
        if (const int process = std::atoi(entry->path().filename().c_str()); process > 0)
            if (Process found = look_at(proc, process); found.parent > 0)
                processes[process] = std::move(found);
    return processes;
}

bool has_thread(const std::filesystem::path& proc, int process, const std::string& name) {
    std::error_code failed;
    for (std::filesystem::directory_iterator entry(proc / std::to_string(process) / "task", failed), end;
         !failed && entry != end; entry.increment(failed)) {
        std::ifstream file(entry->path() / "comm");
        std::string found;
        if (std::getline(file, found) && found == name) return true;
    }
    return false;
}

/// What runs for one rank of the launch: its program, and what that has started.
struct Late {
    int stopped = 0;  ///< a process of it; 0: none
    int last = 0;     ///< the one that was started last
    bool waits = false;
};

}  // namespace

std::string ranks_left_on_host(const Environment& own, const std::filesystem::path& proc) {
    const std::string job = text_of(own, "PMIX_NAMESPACE"),
                      counted = text_of(own, "OMPI_COMM_WORLD_LOCAL_SIZE");
    if (job.empty() || counted.empty()) return {};
    const std::map<int, Process> processes = look_at_all(proc);
    // In a container of its own a rank sees neither the launcher nor the others.
    std::ifstream self(proc / "self/stat");
    int mine = 0;
    self >> mine;
    const int launcher = launcher_above(processes, mine);
    if (launcher == 0) return {};
    std::set<int> ranks;
    for (const auto& [process, found] : processes) {
        const Environment environment = environment_of(proc, process);
        // Not yet the rank that it will be: as it was forked, or below a helper with rights of its own.
        if (found.parent == launcher && found.state != 'Z' &&
            (environment.empty() || starts_ranks(found.name)))
            return {};
        if (text_of(environment, "PMIX_NAMESPACE") == job && environment.contains("PMIX_RANK"))
            ranks.insert(std::atoi(text_of(environment, "PMIX_RANK").c_str()));
    }
    if (ranks.empty() || static_cast<int>(ranks.size()) >= std::atoi(counted.c_str())) return {};
    std::string list;
    for (const int rank : ranks) list += (list.empty() ? "" : ", ") + std::to_string(rank);
    return (ranks.size() == 1 ? "rank " : "ranks ") + list + " of the " + counted;
}

std::string late_ranks_on_host(const Environment& own, const std::filesystem::path& proc) {
    const std::string job = text_of(own, "PMIX_NAMESPACE");
    if (job.empty()) return {};
    const std::map<int, Process> processes = look_at_all(proc);
    std::map<int, Late> ranks;
    for (const auto& [process, found] : processes) {
        const Environment environment = environment_of(proc, process);
        if (text_of(environment, "PMIX_NAMESPACE") != job || !environment.contains("PMIX_RANK")) continue;
        Late& rank = ranks[std::atoi(text_of(environment, "PMIX_RANK").c_str())];
        rank.last = process;
        if (found.state == 'T' || found.state == 't') rank.stopped = process;
        rank.waits |= has_thread(proc, process, waiting_thread);
    }
    const auto name = [](int rank) { return "rank " + std::to_string(rank) + ", process "; };
    for (const auto& [number, rank] : ranks)
        if (rank.stopped != 0) return name(number) + std::to_string(rank.stopped) + ", is stopped";
    std::string here;
    for (const auto& [number, rank] : ranks) {
        if (!rank.waits)
            return name(number) + std::to_string(rank.last) + " (" + processes.at(rank.last).name +
                   "), has not called it";
        here += (here.empty() ? "" : ", ") + std::to_string(number);
    }
    if (here.empty()) return {};
    return (ranks.size() == 1 ? "rank " + here + " of this host waits"
                              : "ranks " + here + " of this host wait") +
           " there, the others are missing";
}

bool LooksInARow::certain_after(const std::string& left) {
    constexpr int certain = 3;
    looks_ = left.empty() ? 0 : left == left_ ? looks_ + 1 : 1;
    left_ = left;
    return looks_ >= certain;
}

StartWatch::StartWatch(Environment environment, const StartPatience& patience,
                       std::function<double()> steady) {
    thread_.start([this, environment = std::move(environment), patience, steady = std::move(steady)] {
        pthread_setname_np(pthread_self(), waiting_thread);
        WaitClock clock(steady);
        look_on(environment, patience, clock);
    });
}

void StartWatch::look_on(const Environment& environment, const StartPatience& patience, WaitClock& clock) {
    LooksInARow looks;
    bool warned = false;
    for (;;) {
        double next = 1;
        if (patience.mpi_init > 0) next = std::clamp(patience.mpi_init - clock.now(), 0.0, next);
        if (thread_.is_over_within(std::chrono::duration<double>(next))) return;
        const double waited = clock.now();
        const auto reached = [&](double seconds) { return seconds > 0 && waited >= seconds; };
        const std::string left = ranks_left_on_host(environment);
        const bool missing = looks.certain_after(left);
        const bool too_late = reached(patience.mpi_init), slow = !warned && reached(patience.peers);
        if (!missing && !too_late && !slow) continue;
        const std::string waits = "rank " + std::to_string(read_launch(environment).rank.value_or(0)) +
                                  " on " + host_name() + " waits in MPI_Init for its peers";
        std::string reason =
            waits + ", of which only " + left +
            " on this host still run: another ended without starting MPI; start all ranks with "
            "the same command line";
        if (!missing) {
            // Not at once: a peer that gives up, too, may have ended its thread and not yet itself.
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
            const std::string late = late_ranks_on_host(environment);
            reason = waits + ", since " + std::to_string(static_cast<std::int64_t>(waited)) + " s" +
                     (late.empty() ? "" : ": ") + late +
                     "; look whether every rank runs this program, and whether the hosts reach each " +
                     "other (trainer doctor on each host)" +
                     (too_late ? ", or raise " + patience.timeout_name() + " if a rank is only slow"
                               : std::string());
        }
        if (thread_.is_over_within(std::chrono::seconds(0))) return;  // MPI has started meanwhile
        // A large job may take a while, and so far nothing shows that a rank is gone.
        const bool gives_up = missing || too_late;
        write_standard_error((gives_up ? "error: " : "warning: ") + reason + '\n');
        warned = true;
        if (!gives_up) continue;
        hand_over_output();
        std::_Exit(static_cast<int>(ExitCode::peer));
    }
}

}  // namespace tutti
