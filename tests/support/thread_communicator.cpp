#include "thread_communicator.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "checks.hpp"
#include "combine.hpp"

namespace tutti::test {
namespace {

struct Group;

/// What one rank asks for.
struct Call {
    const char* kind = "";
    std::int64_t count = 0;
    DType dtype = DType::u8;
    ReduceOp op = ReduceOp::sum;
    int root = 0;
    std::byte* input = nullptr;
    std::byte* output = nullptr;
    int peer = -1;  ///< of an exchange; each rank has its own

    bool matches(const Call& other) const {
        return std::strcmp(kind, other.kind) == 0 && count == other.count && dtype == other.dtype &&
               op == other.op && root == other.root;
    }
    std::string text() const {
        const char* const ops[] = {"sum", "max", "min"};
        return describe(kind, count, dtype) + " (" + ops[static_cast<int>(op)] + ", root " +
               std::to_string(root) + ")";
    }
    std::size_t bytes() const { return static_cast<std::size_t>(count) * size_of(dtype); }
};

/// One collective: done when the last rank has come, and done by that rank.
struct Meeting {
    std::map<int, Call> calls;
    std::shared_ptr<Group> duplicate;
    bool done = false;
};

/// What all threads share; everything below is guarded by `mutex`.
struct World {
    int size = 1;
    double timeout = 0;
    std::mutex mutex;
    std::condition_variable changed;
    std::string failure;      ///< why nobody shall wait any longer
    bool mismatch = false;    ///< failure tells of collectives that do not match
    std::vector<bool> ended;  ///< ranks whose body has returned
    std::exception_ptr first_error;

    void fail(const std::string& reason) {
        if (failure.empty()) failure = reason;
        changed.notify_all();
    }
};

struct Group {
    std::shared_ptr<World> world;
    std::map<std::uint64_t, std::shared_ptr<Meeting>> meetings;  ///< those that not every rank has joined
};

template <class T>
T combine(T a, T b, ReduceOp op) {
    switch (op) {
        case ReduceOp::sum:
            return a + b;
        case ReduceOp::max:
            return std::max(a, b);
        case ReduceOp::min:
            return std::min(a, b);
    }
    return a;
}

/// The reduction of every rank's input, in rank order.
template <class T>
std::vector<T> reduce(const std::map<int, Call>& calls) {
    const Call& first = calls.at(0);
    const auto* const start = reinterpret_cast<const T*>(first.input);
    std::vector<T> result(start, start + first.count);
    for (int rank = 1; rank < static_cast<int>(calls.size()); ++rank) {
        const auto* const values = reinterpret_cast<const T*>(calls.at(rank).input);
        for (std::size_t i = 0; i < result.size(); ++i) result[i] = combine(result[i], values[i], first.op);
    }
    return result;
}

template <class T>
void reduce_into(const std::map<int, Call>& calls, bool scatter) {
    const std::vector<T> result = reduce<T>(calls);
    const std::size_t part = scatter ? result.size() / calls.size() : result.size();
    for (const auto& [rank, call] : calls)
        std::memcpy(call.output, result.data() + (scatter ? static_cast<std::size_t>(rank) * part : 0),
                    part * sizeof(T));
}

void reduce_bf16_into(const std::map<int, Call>& calls, bool scatter) {
    const Call& first = calls.at(0);
    std::vector<std::byte> result(first.bytes());
    combine_bf16(
        result.data(), [&](int rank) { return calls.at(rank).input; }, static_cast<int>(calls.size()),
        first.count, first.op);
    const std::size_t part = scatter ? result.size() / calls.size() : result.size();
    for (const auto& [rank, call] : calls)
        std::memcpy(call.output, result.data() + (scatter ? static_cast<std::size_t>(rank) * part : 0), part);
}

void perform(Meeting& meeting, const std::shared_ptr<World>& world) {
    const auto& calls = meeting.calls;
    const Call& first = calls.at(0);
    const std::string kind = first.kind;
    if (kind == "duplicate") {
        meeting.duplicate = std::make_shared<Group>(Group{world, {}});
    } else if (first.count == 0) {
        return;
    } else if (kind == "all_reduce" || kind == "reduce_scatter") {
        const bool scatter = kind == "reduce_scatter";
        if (first.dtype == DType::f32) reduce_into<float>(calls, scatter);
        if (first.dtype == DType::f64) reduce_into<double>(calls, scatter);
        if (first.dtype == DType::bf16) reduce_bf16_into(calls, scatter);
        if (first.dtype == DType::i64) reduce_into<std::int64_t>(calls, scatter);
    } else if (kind == "all_gather") {
        for (const auto& [from_rank, from] : calls)
            for (const auto& [to_rank, to] : calls)
                std::memmove(to.output + static_cast<std::size_t>(from_rank) * from.bytes(), from.input,
                             from.bytes());
    } else if (kind == "exchange") {
        for (const auto& [rank, to] : calls) std::memcpy(to.output, calls.at(to.peer).input, to.bytes());
    } else if (kind == "broadcast") {
        const Call& from = calls.at(first.root);
        for (const auto& [rank, to] : calls)
            if (rank != first.root) std::memcpy(to.output, from.input, from.bytes());
    }
}

class ThreadTransfer final : public Work::Transfer {
  public:
    ThreadTransfer(std::shared_ptr<World> world, std::shared_ptr<Meeting> meeting, int rank)
        : world_(std::move(world)), meeting_(std::move(meeting)), rank_(rank) {}

    bool test() override {
        const std::lock_guard lock(world_->mutex);
        return ready();
    }

    void wait() override {
        std::unique_lock lock(world_->mutex);
        // The system clock: older thread sanitizers do not know the wait on the steady one.
        const auto end = std::chrono::system_clock::now() +
                         std::chrono::milliseconds(static_cast<std::int64_t>(world_->timeout * 1000));
        while (!ready())
            if (world_->changed.wait_until(lock, end) == std::cv_status::timeout && !ready())
                throw PeerError(call() + ": rank " + std::to_string(rank_) + " waited " +
                                    std::to_string(world_->timeout) + " s for its peers",
                                "raise distributed.timeout");
    }

  private:
    std::string call() const { return meeting_->calls.at(rank_).text(); }

    bool ready() const {
        if (meeting_->done) return true;
        if (world_->mismatch) throw RunError(world_->failure);
        if (!world_->failure.empty()) throw PeerError(call() + ": " + world_->failure);
        for (int peer = 0; peer < world_->size; ++peer)
            if (world_->ended[static_cast<std::size_t>(peer)] && !meeting_->calls.contains(peer))
                throw PeerError(call() + ": rank " + std::to_string(peer) + " ended without it");
        return false;
    }

    std::shared_ptr<World> world_;
    std::shared_ptr<Meeting> meeting_;
    int rank_;
};

class ThreadCommunicator final : public Communicator {
  public:
    ThreadCommunicator(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

    int rank() const override { return rank_; }
    int size() const override { return group_->world->size; }
    std::string backend() const override { return "threads"; }

    Work all_reduce(const TensorView& buffer, ReduceOp op) override {
        require_reducible("all_reduce", buffer);
        return start({"all_reduce", buffer.count(), buffer.dtype, op, 0, buffer.data, buffer.data});
    }
    Work reduce_scatter(const TensorView& input, const TensorView& output, ReduceOp op) override {
        require_reducible("reduce_scatter", input);
        require_blocks("reduce_scatter", input, output, size());
        return start({"reduce_scatter", input.count(), input.dtype, op, 0, input.data, output.data});
    }
    Work all_gather(const TensorView& input, const TensorView& output) override {
        require_blocks("all_gather", output, input, size());
        return start({"all_gather", input.count(), input.dtype, ReduceOp::sum, 0, input.data, output.data});
    }
    // As its three parts: so that what is done with sums meanwhile is tested, too.
    bool reduces_then_gathers_by_piece() const override { return true; }
    Work broadcast(const TensorView& buffer, int root) override {
        require_root("broadcast", root, size());
        return start(
            {"broadcast", buffer.count(), buffer.dtype, ReduceOp::sum, root, buffer.data, buffer.data});
    }
    Work exchange(const TensorView& send, const TensorView& receive, int peer) override {
        require_pair(send, receive, peer, rank_, size());
        return start({"exchange", send.count(), send.dtype, ReduceOp::sum, 0, send.data, receive.data, peer});
    }
    void barrier() override { start({.kind = "barrier"}).wait(); }

    std::unique_ptr<Communicator> duplicate() override {
        const auto meeting = join({.kind = "duplicate"});
        ThreadTransfer(group_->world, meeting, rank_).wait();
        const std::lock_guard lock(group_->world->mutex);
        return std::make_unique<ThreadCommunicator>(meeting->duplicate, rank_);
    }

    [[noreturn]] void abort(ExitCode code) noexcept override {
        std::fprintf(stderr, "rank %d (a thread) aborts with code %d\n", rank_, static_cast<int>(code));
        std::fflush(nullptr);
        std::_Exit(static_cast<int>(code));
    }

  private:
    Work start(const Call& call) {
        return Work(std::make_unique<ThreadTransfer>(group_->world, join(call), rank_));
    }

    std::shared_ptr<Meeting> join(const Call& call) {
        World& world = *group_->world;
        const std::lock_guard lock(world.mutex);
        if (world.mismatch) throw RunError(world.failure);
        if (!world.failure.empty()) throw PeerError(call.text() + ": " + world.failure);

        const std::uint64_t number = next_++;
        auto& entry = group_->meetings[number];
        if (!entry) entry = std::make_shared<Meeting>();
        const auto meeting = entry;
        if (!meeting->calls.empty() && !meeting->calls.begin()->second.matches(call)) {
            const auto& [other_rank, other] = *meeting->calls.begin();
            world.mismatch = true;
            world.fail("collective " + std::to_string(number) + " does not match: rank " +
                       std::to_string(rank_) + " calls " + call.text() + ", rank " +
                       std::to_string(other_rank) + " calls " + other.text());
            throw RunError(world.failure);
        }
        meeting->calls.emplace(rank_, call);
        if (static_cast<int>(meeting->calls.size()) == world.size) {
            perform(*meeting, group_->world);
            meeting->done = true;
            group_->meetings.erase(number);
            world.changed.notify_all();
        }
        return meeting;
    }

    std::shared_ptr<Group> group_;
    int rank_;
    std::uint64_t next_ = 0;
};

void run_rank(const std::shared_ptr<Group>& group, int rank, const std::function<void(Communicator&)>& body) {
    World& world = *group->world;
    std::exception_ptr error;
    std::string reason;
    try {
        ThreadCommunicator communicator(group, rank);
        body(communicator);
    } catch (const std::exception& caught) {
        error = std::current_exception();
        reason = caught.what();
    } catch (...) {
        error = std::current_exception();
        reason = "an exception of unknown type";
    }
    const std::lock_guard lock(world.mutex);
    world.ended[static_cast<std::size_t>(rank)] = true;
    if (error && !world.first_error) world.first_error = error;
    if (error) world.fail("rank " + std::to_string(rank) + " failed: " + reason);
    world.changed.notify_all();
}

}  // namespace

void run_on_threads(int ranks, const std::function<void(Communicator&)>& body, double timeout) {
    const auto world = std::make_shared<World>();
    world->size = ranks;
    world->timeout = timeout;
    world->ended.resize(static_cast<std::size_t>(ranks));
    const auto group = std::make_shared<Group>(Group{world, {}});

    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&, rank] { run_rank(group, rank, body); });
    for (auto& thread : threads) thread.join();
    if (world->first_error) std::rethrow_exception(world->first_error);
}

}  // namespace tutti::test
