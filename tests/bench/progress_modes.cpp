// How transfers go on during backward: not at all, by polling between layers, by polling between and within
// layers, or by a thread of their own.
// Real gradients' sizes and order, the real reducer and MPI; run by progress_modes.py.
//
//   bench_progress_modes MODEL-SETTINGS… : prints one JSON object on rank 0.
//
// Two kinds of steps. "compute": real backward; a thread shares the rank's core. "wait": backward is replaced
// by waits of its measured length, which leave the core idle: as if the rank had a second core for the
// thread. Modes take turns, so that what disturbs the machine disturbs all alike.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "tutti/base/config.hpp"
#include "tutti/base/spread.hpp"
#include "tutti/comm/mpi_session.hpp"
#include "tutti/device/device.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/precision.hpp"
#include "tutti/train/reducer.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Polls the reducer until it is destroyed. Whoever else calls MPI holds the mutex (MPI_THREAD_SERIALIZED).
class ProgressThread {
  public:
    ProgressThread(Reducer& reducer, std::mutex& mutex)
        : thread_([this, &reducer, &mutex] {
              while (!stop_) {
                  {
                      const std::lock_guard lock(mutex);
                      reducer.poll();
                  }
                  std::this_thread::sleep_for(std::chrono::microseconds(50));
              }
          }) {}
    ~ProgressThread() {
        stop_ = true;
        thread_.join();
    }

  private:
    std::atomic<bool> stop_ = false;
    std::thread thread_;
};

class Bench {
  public:
    Bench(const Config& config, Communicator& communicator, Device& device)
        : communicator_(communicator),
          device_(device),
          batch_(config.train.batch_size),
          graph_(build_model(config.model, {{32, 32, 3}, 10}), device, arithmetic_of(config.train.precision),
                 batch_),
          reducer_(communicator, graph_.gradient_arena(), plan_buckets(graph_, config.distributed)) {
        graph_.initialize(1);
        std::mt19937 random(1);
        for (float& x : graph_.input(batch_).span<float>())
            x = std::uniform_real_distribution<float>(-1, 1)(random);
    }

    struct Result {
        double step = 0, backward = 0, poll = 0;
        std::size_t polls = 0;
    };

    /// backward and reduction; forward is real in both kinds and not timed.
    Result step(const std::string& mode, bool wait) {
        if (!wait) graph_.forward(batch_, {});
        for (float& x : graph_.output_gradient(batch_).span<float>()) x = 0.1F;
        communicator_.barrier();
        Result result;
        std::mutex mutex;
        const auto begin = Clock::now();
        std::optional<ProgressThread> thread;
        if (mode == "thread") thread.emplace(reducer_, mutex);
        const auto ready = [&](std::size_t parameter) {
            const std::lock_guard lock(mutex);
            reducer_.ready(parameter);
        };
        const auto poll = [&] {
            if (mode != "layers" && mode != "poll") return;
            const auto before = Clock::now();
            reducer_.poll();
            result.poll += since(before);
            ++result.polls;
        };
        if (wait) {
            for (std::size_t p = 0; p < ready_.size(); ++p) {
                std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(
                                                          std::chrono::duration<double>(ready_[p])));
                ready(p);
                poll();
            }
        } else {
            graph_.set_progress(poll);
            if (mode == "poll") device_.set_progress(poll);
            graph_.backward(batch_, {}, ready);
            device_.set_progress({});
            graph_.set_progress({});
        }
        result.backward = since(begin);
        thread.reset();
        reducer_.finish();
        result.step = since(begin);
        return result;
    }

    /// The waits of "wait": when each gradient is ready without any communication.
    void measure_backward() {
        ready_.assign(graph_.parameters().size(), 0);
        for (int round = 0; round < 3; ++round) {
            graph_.forward(batch_, {});
            const auto begin = Clock::now();
            graph_.backward(batch_, {}, [&](std::size_t p) { ready_[p] = since(begin); });
        }
    }
    std::size_t buckets() const { return reducer_.buckets().size(); }

  private:
    Communicator& communicator_;
    Device& device_;
    std::int64_t batch_;
    Graph graph_;
    Reducer reducer_;
    std::vector<double> ready_;
};

int run(int argc, char** argv) {
    MpiSession session;
    const Config config = parse_config("", "bench.yaml", std::vector<std::string>(argv + 1, argv + argc));
    const auto world = session.world(120);
    const auto device = make_cpu_device(1);
    Bench bench(config, *world, *device);
    bench.measure_backward();
    const std::vector<std::string> modes{"none", "layers", "poll", "thread"};
    constexpr int rounds = 7;
    std::map<std::string, std::vector<double>> step, backward;
    double poll = 0, polled = 0, polls = 0;
    for (int round = -1; round < rounds; ++round)  // the first warms up
        for (const bool wait : {false, true})
            for (const std::string& mode : modes) {
                const Bench::Result result = bench.step(mode, wait);
                if (round < 0) continue;
                const std::string name = (wait ? "wait " : "compute ") + mode;
                step[name].push_back(result.step);
                backward[name].push_back(result.backward);
                if (mode != "poll" || wait) continue;
                poll += result.poll;
                polls += static_cast<double>(result.polls);
                polled += result.step;
            }
    if (session.rank() != 0) return 0;
    std::string text = fmt::format(R"({{"buckets": {}, "polls_per_step": {:.1f}, "poll_share": {:.5f})",
                                   bench.buckets(), polls / rounds, poll / polled);
    for (const auto& [name, values] : step)
        text += fmt::format(R"(, "{}": {{"step": {:.6f}, "backward": {:.6f}}})", name, median(values),
                            median(backward[name]));
    fmt::print("{}}}\n", text);
    return 0;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
    return tutti::run(argc, argv);
}
