// How far are two cores from each other? A cache line is sent to the other core and back; the round trip is
// short where the two have a cache in common. On a virtual machine the answer changes when the host moves its
// processors; core_distance.py asks before and after each measurement of peer_torch.py.
//
//   bench_core_distance [CORE CORE] : prints the nanoseconds of a round trip between these cores, else
//   between the first two that this process may run on: the median of 31 bursts of 2000 round trips. A burst
//   lasts 0.2 to 1 ms, less than what the scheduler leaves to a thread at once, so that few are interrupted.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tutti/comm/launch.hpp"
#include "two_cores.hpp"

namespace tutti {
namespace {

constexpr int bursts = 31;
constexpr int round_trips = 2000;

int core_of(std::string_view word) {
    int core = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), core);
    if (error != std::errc() || end != word.data() + word.size() || core < 0 || core >= 1 << 20)
        throw std::runtime_error(fmt::format("'{}' is not the number of a core", word));
    return core;
}

/// Nanoseconds of a round trip. The calling thread plays on the first core and stays there.
double round_trip(int first, int second) {
    // Both are tried before the partner exists, who would wait forever for a thread that could not be placed.
    pin_to(first);
    pin_to(second);
    struct alignas(128) {  // a line of its own, and the neighbour that is fetched with it
        std::atomic<int> turn{0};
    } ball;
    std::jthread partner([&ball] {
        for (int serve = 1; serve < 2 * bursts * round_trips; serve += 2) {
            while (ball.turn.load(std::memory_order_acquire) != serve) {
            }
            ball.turn.store(serve + 1, std::memory_order_release);
        }
    });
    pin_to(first);
    std::vector<double> nanoseconds;
    int serve = 1;
    for (int burst = 0; burst < bursts; ++burst) {
        const auto begin = std::chrono::steady_clock::now();
        for (int trip = 0; trip < round_trips; ++trip, serve += 2) {
            ball.turn.store(serve, std::memory_order_release);
            while (ball.turn.load(std::memory_order_acquire) != serve + 1) {
            }
        }
        const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
        nanoseconds.push_back(taken.count() / round_trips);
    }
    std::sort(nanoseconds.begin(), nanoseconds.end());
    return nanoseconds[bursts / 2];
}

int run(const std::vector<std::string_view>& words) {
    std::vector<int> cores;
    for (const std::string_view word : words) cores.push_back(core_of(word));
    if (words.empty()) cores = bound_cores();
    if (words.size() == 1 || words.size() > 2 || (words.size() == 2 && cores[0] == cores[1]))
        throw std::runtime_error("two different cores, or none for the first two of this process");
    if (cores.size() < 2)
        throw std::runtime_error(
            fmt::format("this process may run on core {} alone, and two are needed; "
                        "see `taskset -cp $$` and the container's limits",
                        cores.at(0)));
    fmt::print("{:.0f}\n", round_trip(cores[0], cores[1]));
    return 0;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
    return tutti::run_program("bench_core_distance", tutti::run, argc, argv);
}
