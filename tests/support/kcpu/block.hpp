#pragma once
// The threads of one block, their barriers, warps and shared memory. One object serves all blocks of a
// launch, one after the other, and keeps the fibers.

#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cuda_language.hpp"
#include "fiber.hpp"
#include "race.hpp"
#include "scheduler.hpp"

namespace tutti::kcpu {

class Block {
  public:
    Block(const char* kernel, Extent grid, Extent block, SharedMemory shared, Order order,
          std::mt19937& generator, const std::function<void()>& body);
    ~Block();

    /// Runs block number `index` of the grid; error() tells whether it came to its end.
    void run(std::uint64_t index);
    const std::string& error() const { return error_; }

    // From inside a thread.
    [[noreturn]] void fail(const std::string& problem);
    void* shared_variable(const void* key, std::size_t bytes, const char* name);
    void* dynamic_shared_memory();
    int barrier(int value, const Place& place);
    Exchange exchange(WarpOperation operation, unsigned mask, std::span<const std::uint64_t> words,
                      const Place& place);
    /// Of the running thread.
    void add_copy(const PendingCopy& copy) { current_->copies.push_back(copy); }
    bool take_copy(PendingCopy& copy);

  private:
    enum class State { fresh, ready, at_barrier, at_warp_operation, done };
    struct Worker;
    struct Thread {
        uint3 index;
        int number;  ///< linear
        State state;
        Place place;
        unsigned mask;
        Worker* worker;
        std::vector<PendingCopy> copies;
        std::size_t copies_taken;
    };
    /// A fiber, and the thread that runs on it. Kept from one launch to the next: most launches are short.
    struct Worker {
        Block* block;
        Thread* thread;
        std::unique_ptr<Fiber> fiber;
    };
    /// The lanes that name one mask. Words lie in two sets by turns: a lane may be at the next operation
    /// before another has read this one's.
    struct Group {
        unsigned mask, arrived = 0, lanes[2] = {};
        WarpOperation operation{};
        Place place;
        unsigned turn = 0;
        std::uint64_t words[2][exchanged_words][32] = {};
    };
    struct Warp {
        unsigned exited = 0;
        std::vector<std::unique_ptr<Group>> groups;
    };
    struct Variable {
        const void* key;
        void* data;
        std::size_t bytes;
    };

    /// Those of launches that are over.
    static std::vector<std::unique_ptr<Worker>>& spare_workers();
    static void work(void* worker);
    void reset(std::uint64_t index);
    void schedule();
    /// A thread that can go on, on its fiber; null where none can.
    Thread* next_thread();
    /// The running thread waits, and another goes on.
    void wait();
    bool open_barrier();
    void give_worker(Thread& thread);
    void select(Thread& thread);
    void resume(Thread& thread);
    Thread& next_fresh() { return threads_[static_cast<std::size_t>(sequence_[fresh_++])]; }
    bool has_fresh() const { return fresh_ < sequence_.size(); }
    void wake(Thread& thread);
    void release(Warp& warp, Group& group, int caller);
    void finish(Thread& thread);
    std::string describe(const Thread& thread) const;
    /// One example per distinct place where threads are.
    std::string whereabouts(const std::string& problem) const;

    const std::string kernel_;
    const Extent grid_;
    const Order order_;
    std::mt19937& generator_;
    const std::function<void()>& body_;
    std::vector<Thread> threads_;
    std::vector<Warp> warps_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<Worker*> idle_;
    std::vector<int> sequence_;  ///< the order in which threads begin
    std::size_t fresh_ = 0;      ///< the next one in it
    std::deque<int> ready_;
    Thread* current_ = nullptr;
    std::size_t done_ = 0, waiting_ = 0;
    int barrier_sum_ = 0, barrier_result_ = 0;
    std::vector<Variable> variables_;
    void* dynamic_shared_ = nullptr;
    std::size_t dynamic_bytes_ = 0;
    std::size_t left_bytes_;  ///< for static shared memory
    std::string error_;
};

}  // namespace tutti::kcpu
