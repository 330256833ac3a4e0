#pragma once
// Threads of our own for parallel regions that follow each other closely.

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace tutti {

/// Threads that go through run_together's bodies beside the one that made them. Where all layers of a model
/// are kernels of ours, regions of some µs follow each other: OpenMP's begin and end of one take 0.7 to 0.9
/// µs there (two threads, cores with a common cache, Zen 5), a word there and one back 0.2. Where a library
/// opens regions, OpenMP's threads turn for some milliseconds in wait of the next one, on the same cores: a
/// team beside them made layers up to twice as slow. So it computes in steps behind one that did without, and
/// not while cores are shared with others (ShortWaits).
class ThreadTeam {
  public:
    using Call = void (*)(const void* body, int caller, int there);

    /// As many threads as `threads`, with the calling one, which alone then gets the team. None where OpenMP
    /// binds threads, as these would not be bound, where OMP_WAIT_POLICY is passive, where there are fewer
    /// `cores` (0: those that the process has), and of more than 8: no machine with so many cores for a rank
    /// was measured.
    explicit ThreadTeam(int threads, int cores = 0);
    /// By the thread that made it.
    ~ThreadTeam();
    ThreadTeam(const ThreadTeam&) = delete;
    ThreadTeam& operator=(const ThreadTeam&) = delete;

    /// The calling thread's latest, where it may be used now for so many callers; else null.
    static ThreadTeam* ready(int callers);
    /// A step begins, which repeats the one before. By the thread that made it.
    void begin_step();
    /// Whether the calling thread is in a region of a team.
    static bool inside();
    /// What run_together does.
    void run(int callers, Call call, const void* body) noexcept;
    /// The calling thread is about to compute with OpenMP's threads, as a library does or for_lanes: it has
    /// no team until a whole step has gone without. Nothing where it may use one thread only.
    static void note_library_region();

  private:
    void work(int number) noexcept;

    /// Changes with each job. The lowest bits say for how many callers it is: only they may read what it is.
    static constexpr std::uint32_t callers_mask = 15, one_job = callers_mask + 1, last_job = callers_mask;
    alignas(64) std::atomic<std::uint32_t> state_{0};
    Call call_ = nullptr;
    const void* body_ = nullptr;
    alignas(64) std::atomic<int> done_{0};
    bool runs_ = false;         ///< within a region another one is not for the team
    bool step_begun_ = false;   ///< since a library's region
    bool step_passed_ = false;  ///< and another one, so that one has gone without
    std::vector<std::thread> threads_;
};

}  // namespace tutti
