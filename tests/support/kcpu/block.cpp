#include "block.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>

// CUDA's names; rewritten whenever another thread goes on.
uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace tutti::kcpu {
namespace {

bool same_place(const Place& a, const Place& b) {
    // One text, most times.
    return a.line() == b.line() &&
           (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

std::string text_of(const Place& place) {
    const char* slash = std::strrchr(place.file_name(), '/');
    return std::string(slash ? slash + 1 : place.file_name()) + ":" + std::to_string(place.line());
}

std::string text_of(const uint3& index) {
    return "(" + std::to_string(index.x) + "," + std::to_string(index.y) + "," + std::to_string(index.z) +
           ")";
}

/// Leaves the kernel of the thread that found a problem.
struct Stop {
    std::string problem;
};

void poison(void* data, std::size_t bytes) {
    std::memset(data, 0xff, bytes);
}

void* allocate(std::size_t bytes) {
    void* data = nullptr;
    if (posix_memalign(&data, 128, bytes) != 0) throw std::bad_alloc();
    return data;
}

}  // namespace

Block::Block(const char* kernel, Extent grid, Extent block, SharedMemory shared, Order order,
             std::mt19937& generator, const std::function<void()>& body)
    : kernel_(kernel),
      grid_(grid),
      order_(order),
      generator_(generator),
      body_(body),
      threads_(block.count()),
      warps_((block.count() + 31) / 32),
      sequence_(block.count()),
      dynamic_bytes_(shared.dynamic),
      left_bytes_(shared.most - shared.dynamic) {
    gridDim = {grid.x, grid.y, grid.z};
    blockDim = {block.x, block.y, block.z};
    const int count = static_cast<int>(block.count());
    for (int i = 0; i < count; ++i) {
        const unsigned n = static_cast<unsigned>(i);
        Thread& thread = threads_[n];
        thread.number = i;
        thread.index = {n % block.x, n / block.x % block.y, n / block.x / block.y};
        sequence_[n] = order == Order::reverse ? count - 1 - i : i;
    }
    now.warp_epoch.assign(warps_.size(), 0);
    if (dynamic_bytes_ > 0) {
        dynamic_shared_ = allocate(dynamic_bytes_);
        races_shared_memory(dynamic_shared_, dynamic_bytes_, "dynamic shared memory");
    }
}

Block::~Block() {
    // A thread that did not come to its end is on its worker's stack for good.
    if (error_.empty())
        for (auto& worker : workers_) spare_workers().push_back(std::move(worker));
    for (const Variable& variable : variables_) std::free(variable.data);
    std::free(dynamic_shared_);
}

void Block::reset(std::uint64_t index) {
    blockIdx = {static_cast<unsigned>(index % grid_.x), static_cast<unsigned>(index / grid_.x % grid_.y),
                static_cast<unsigned>(index / grid_.x / grid_.y)};
    now.block = index;
    ++now.block_epoch;
    fresh_ = done_ = waiting_ = 0;
    barrier_sum_ = 0;
    ready_.clear();
    if (order_ == Order::random) std::shuffle(sequence_.begin(), sequence_.end(), generator_);
    for (Thread& thread : threads_)
        thread.state = State::fresh, thread.copies.clear(), thread.copies_taken = 0;
    for (std::size_t w = 0; w < warps_.size(); ++w) {
        const std::size_t lanes = threads_.size() - w * 32;  // the last warp may be short
        warps_[w].exited = lanes >= 32 ? 0u : ~0u << lanes;
        for (auto& group : warps_[w].groups) group->arrived = 0;
    }
    if (dynamic_shared_) poison(dynamic_shared_, dynamic_bytes_);
    for (const Variable& variable : variables_) poison(variable.data, variable.bytes);
    races_new_block();
}

void Block::run(std::uint64_t index) {
    reset(index);
    schedule();
}

void Block::schedule() {
    while (error_.empty())
        if (Thread* const next = next_thread())
            resume(*next);
        else if (done_ == threads_.size() || !open_barrier())
            return;
}

Block::Thread* Block::next_thread() {
    const bool begin_one = has_fresh() && (ready_.empty() || order_ == Order::reverse ||
                                           (order_ == Order::random && (generator_() & 1) != 0));
    if (begin_one) {
        Thread& thread = next_fresh();
        give_worker(thread);
        return &thread;
    }
    if (ready_.empty()) return nullptr;
    const bool last = order_ == Order::reverse;
    const int number = last ? ready_.back() : ready_.front();
    last ? ready_.pop_back() : ready_.pop_front();
    return &threads_[static_cast<std::size_t>(number)];
}

void Block::wait() {
    Fiber& mine = *current_->worker->fiber;
    Thread* const next = next_thread();
    if (!next) return mine.yield();
    select(*next);
    mine.switch_to(*next->worker->fiber);
}

std::vector<std::unique_ptr<Block::Worker>>& Block::spare_workers() {
    static auto* const workers =
        new std::vector<std::unique_ptr<Worker>>;  // their stacks outlive all statics
    return *workers;
}

void Block::give_worker(Thread& thread) {
    if (idle_.empty()) {
        auto& spare = spare_workers();
        if (spare.empty()) {
            workers_.push_back(std::make_unique<Worker>());
            workers_.back()->fiber = std::make_unique<Fiber>(work, workers_.back().get());
        } else {
            workers_.push_back(std::move(spare.back()));
            spare.pop_back();
        }
        workers_.back()->block = this;
        idle_.push_back(workers_.back().get());
    }
    thread.worker = idle_.back();
    idle_.pop_back();
    thread.worker->thread = &thread;
}

/// Nothing can go on but by a barrier: opens it, or says what is wrong.
bool Block::open_barrier() {
    if (waiting_ + done_ < threads_.size()) {
        error_ = whereabouts("deadlock: the threads wait for one another");
        return false;
    }
    if (done_ > 0) {
        error_ =
            whereabouts("divergent barrier: some threads wait for the block, others have left the kernel");
        return false;
    }
    for (const Thread& thread : threads_)
        if (!same_place(thread.place, threads_[0].place)) {
            error_ = whereabouts("divergent barrier: the block's threads wait at different barriers");
            return false;
        }
    waiting_ = 0;
    barrier_result_ = barrier_sum_;
    barrier_sum_ = 0;
    ++now.block_epoch;
    if (order_ == Order::random) std::shuffle(sequence_.begin(), sequence_.end(), generator_);
    for (const int number : sequence_) wake(threads_[static_cast<std::size_t>(number)]);
    return true;
}

void Block::work(void* argument) {
    Worker& worker = *static_cast<Worker*>(argument);
    for (;;) {
        Block& block = *worker.block;  // another launch's, each time
        try {
            block.body_();
        } catch (const Stop& stop) {
            block.error_ = stop.problem;
        }
        while (!block.error_.empty()) worker.fiber->yield();  // the launch is over
        block.finish(*worker.thread);
        block.idle_.push_back(&worker);
        // Element-wise kernels need no switch: the next thread begins on this worker.
        if (Thread* const next = block.next_thread()) {
            block.select(*next);
            if (next->worker != &worker) worker.fiber->switch_to(*next->worker->fiber);
        } else {
            worker.fiber->yield();
        }
    }
}

void Block::select(Thread& thread) {
    current_ = &thread;
    threadIdx = thread.index;
    now.thread = thread.number;
    now.fiber = thread.worker->fiber.get();
}

void Block::resume(Thread& thread) {
    select(thread);
    thread.worker->fiber->resume();
}

void Block::wake(Thread& thread) {
    thread.state = State::ready;
    ready_.push_back(thread.number);
}

void Block::finish(Thread& thread) {
    thread.state = State::done;
    ++done_;
    Warp& warp = warps_[static_cast<std::size_t>(thread.number / 32)];
    warp.exited |= 1u << (thread.number % 32);
    for (auto& group : warp.groups)
        if (group->arrived != 0 && (group->mask & ~warp.exited & ~group->arrived) == 0)
            release(warp, *group, -1);
}

void Block::fail(const std::string& problem) {
    throw Stop{"kcpu: " + kernel_ + ": " + problem + "\n  in " + describe(*current_)};
}

void* Block::shared_variable(const void* key, std::size_t bytes, const char* name) {
    for (const Variable& variable : variables_)
        if (variable.key == key) return variable.data;
    // CUDA would not have started the kernel.
    if (bytes > left_bytes_) fail("static and dynamic shared memory are more than the launch may have");
    left_bytes_ -= bytes;
    void* data = allocate(bytes);
    poison(data, bytes);
    variables_.push_back({key, data, bytes});
    races_shared_memory(data, bytes, name);
    return data;
}

void* Block::dynamic_shared_memory() {
    if (!dynamic_shared_) fail("dynamic shared memory is used, but the launch gave none");
    return dynamic_shared_;
}

bool Block::take_copy(PendingCopy& copy) {
    if (current_->copies_taken == current_->copies.size()) return false;
    copy = current_->copies[current_->copies_taken++];
    return true;
}

int Block::barrier(int value, const Place& place) {
    Thread& thread = *current_;
    thread.state = State::at_barrier;
    thread.place = place;
    ++waiting_;
    barrier_sum_ += value;
    wait();
    return barrier_result_;
}

/// The group has everybody: wakes all but the caller, who does not wait.
void Block::release(Warp& warp, Group& group, int caller) {
    const unsigned who = group.arrived;
    group.lanes[group.turn & 1] = who;
    group.arrived = 0;
    ++group.turn;
    const std::size_t number = static_cast<std::size_t>(&warp - warps_.data());
    // Only a barrier of the whole warp orders memory for the race detector.
    if (group.operation == WarpOperation::sync && (who | warp.exited) == ~0u) ++now.warp_epoch[number];
    for (int lane = 0; lane < 32; ++lane)
        if ((who >> lane & 1) != 0 && lane != caller)
            wake(threads_[number * 32 + static_cast<std::size_t>(lane)]);
}

Exchange Block::exchange(WarpOperation operation, unsigned mask, std::span<const std::uint64_t> words,
                         const Place& place) {
    Thread& thread = *current_;
    const int lane = thread.number % 32;
    Warp& warp = warps_[static_cast<std::size_t>(thread.number / 32)];
    thread.place = place;
    thread.mask = mask;
    thread.state = State::at_warp_operation;
    if ((mask >> lane & 1) == 0) fail("a lane calls a warp operation whose mask does not name it");
    Group* group = nullptr;
    for (auto& candidate : warp.groups)
        if (candidate->mask == mask) group = candidate.get();
    if (!group) {
        warp.groups.push_back(std::make_unique<Group>());
        group = warp.groups.back().get();
        group->mask = mask;
    }
    if (group->arrived == 0) {
        group->operation = operation;
        group->place = place;
    } else if (group->operation != operation || !same_place(group->place, place)) {
        fail("lanes of one mask meet in different warp operations; the other is at " + text_of(group->place));
    }
    const unsigned turn = group->turn & 1;
    for (std::size_t w = 0; w < words.size(); ++w) group->words[turn][w][lane] = words[w];
    group->arrived |= 1u << lane;
    if ((mask & ~warp.exited & ~group->arrived) == 0) {
        thread.state = State::ready;
        release(warp, *group, lane);
    } else {
        wait();
    }
    return {group->words[turn], group->words[turn][0], group->lanes[turn], lane};
}

std::string Block::describe(const Thread& thread) const {
    std::string text = "thread " + text_of(thread.index) + " of block " + text_of(blockIdx);
    if (thread.state == State::done) return text + " has left the kernel";
    if (thread.state != State::at_barrier && thread.state != State::at_warp_operation) return text;
    text += " at " + text_of(thread.place);
    if (thread.state == State::at_barrier) return text + " (block barrier)";
    char mask[32];
    std::snprintf(mask, sizeof mask, " with mask 0x%08x", thread.mask);
    return text + mask;
}

std::string Block::whereabouts(const std::string& problem) const {
    std::string text = "kcpu: " + kernel_ + ": " + problem;
    std::vector<std::tuple<State, unsigned, unsigned>> seen;
    for (const Thread& thread : threads_) {
        const auto where =
            std::make_tuple(thread.state, thread.state == State::done ? 0u : thread.place.line(),
                            thread.state == State::at_warp_operation ? thread.mask : 0u);
        if (seen.size() >= 8 || std::find(seen.begin(), seen.end(), where) != seen.end()) continue;
        seen.push_back(where);
        text += "\n  " + describe(thread);
    }
    return text;
}

}  // namespace tutti::kcpu

#if defined(__SANITIZE_ADDRESS__)
/// Called by AddressSanitizer before it reports.
extern "C" void __asan_on_error() {
    if (tutti::kcpu::now.in_kernel)
        std::fprintf(stderr, "kcpu: in thread (%u,%u,%u) of block (%u,%u,%u)\n", threadIdx.x, threadIdx.y,
                     threadIdx.z, blockIdx.x, blockIdx.y, blockIdx.z);
}
#endif
