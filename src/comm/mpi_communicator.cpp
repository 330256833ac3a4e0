#include "mpi_communicator.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "checks.hpp"
#include "tutti/base/stop_signal.hpp"
#include "waiting.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

MPI_Datatype mpi_type(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return MPI_FLOAT;
        case DType::f64:
            return MPI_DOUBLE;
        case DType::i64:
            return MPI_INT64_T;
        case DType::u8:
        case DType::bf16:
            break;
    }
    return MPI_DATATYPE_NULL;  // require_reducible came first
}

MPI_Op mpi_op(ReduceOp op) {
    switch (op) {
        case ReduceOp::sum:
            return MPI_SUM;
        case ReduceOp::max:
            return MPI_MAX;
        case ReduceOp::min:
            return MPI_MIN;
    }
    return MPI_OP_NULL;
}

/// What a communicator, its transfers and its duplicates share.
struct Job {
    double timeout = 0;
    std::int64_t largest_piece = 0;
    std::function<void(const std::string&)> notice;
    bool noticed = false;
    std::string broken;  ///< why no peer can be waited for any more; empty while all is well
};

/// A communicator handle; lives as long as a transfer on it.
struct Handle {
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0;
    int size = 1;
    bool owned = false;
    std::shared_ptr<Job> job;

    Handle() = default;
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() {
        int finalized = 0;
        MPI_Finalized(&finalized);
        // MPI_Comm_free is collective: never where the peers may not come.
        if (owned && finalized == 0 && job->broken.empty() && std::uncaught_exceptions() == 0)
            MPI_Comm_free(&comm);
    }

    void check(int code, const char* call) const {
        if (code != MPI_SUCCESS && job->broken.empty()) job->broken = std::string(call) + " failed before";
        check_mpi(code, call, rank);
    }
};

/// One collective under way as one or several MPI requests.
class MpiTransfer final : public Work::Transfer {
  public:
    MpiTransfer(std::shared_ptr<const Handle> handle, const char* call, std::int64_t count, DType dtype)
        : handle_(std::move(handle)), call_(call), count_(count), dtype_(dtype) {}

    /// The request of the next piece.
    MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

    bool test() override {
        for (; next_ < requests_.size(); ++next_) {
            int done = 0;
            handle_->check(MPI_Test(&requests_[next_], &done, MPI_STATUS_IGNORE), call_);
            if (done == 0) {
                watch();
                return false;
            }
        }
        return true;
    }

    void wait() override {
        // Spin first, about 0.1 ms: a peer on its own core answers within that time, and who yields to a
        // foreign program may come back milliseconds later. Then yield: a peer that shares this core needs
        // it. (A blocking MPI call spins through its whole time slice there: 8 ms for 8 bytes at 4 ranks on 2
        // cores.) A wait of seconds is not a transfer but a peer at other work: leave it the core.
        constexpr int spins = 1000;
        for (int polls = 0; !test(); ++polls) {
            if (polls < spins) continue;
            if (last_poll_ - first_poll_ < std::chrono::seconds(1))
                sched_yield();
            else
                std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
    }

  private:
    void watch() {
        last_poll_ = Clock::now();
        if (first_poll_ == Clock::time_point{}) first_poll_ = last_poll_;
        auto& job = *handle_->job;
        const std::chrono::duration<double> waited = last_poll_ - first_poll_;
        if (job.notice && !job.noticed && waited.count() > 0.3 && StopSignal::seconds_since_term() > 0.3) {
            job.noticed = true;
            job.notice(describe_wait_after_term(describe(call_, count_, dtype_), handle_->rank, mpi_host()));
        }
        if (job.broken.empty() && (job.timeout <= 0 || waited.count() <= job.timeout)) return;

        const std::string problem =
            describe_wait(describe(call_, count_, dtype_), handle_->rank, mpi_host(), waited.count());
        if (!job.broken.empty()) throw PeerError(problem + " (" + job.broken + ")");
        job.broken = std::string(call_) + " timed out before";
        throw PeerError(problem, slow_or_dead);
    }

    std::shared_ptr<const Handle> handle_;
    const char* call_;
    std::int64_t count_;
    DType dtype_;
    std::vector<MPI_Request> requests_;
    std::size_t next_ = 0;
    Clock::time_point first_poll_{}, last_poll_{};
};

class MpiCommunicator final : public Communicator {
  public:
    explicit MpiCommunicator(std::shared_ptr<const Handle> handle) : handle_(std::move(handle)) {}

    int rank() const override { return handle_->rank; }
    int size() const override { return handle_->size; }
    std::string backend() const override { return "mpi"; }

    Work all_reduce(const TensorView& buffer, ReduceOp op) override {
        require_reducible("all_reduce", buffer);
        const auto type = mpi_type(buffer.dtype);
        return start("all_reduce", buffer, [&](MpiTransfer& transfer) {
            for_pieces(buffer.count(), [&](std::int64_t first, int count) {
                check(MPI_Iallreduce(MPI_IN_PLACE, at(buffer, first), count, type, mpi_op(op), handle_->comm,
                                     transfer.add()),
                      "MPI_Iallreduce");
            });
        });
    }

    Work reduce_scatter(const TensorView& input, const TensorView& output, ReduceOp op) override {
        require_reducible("reduce_scatter", input);
        require_blocks("reduce_scatter", input, output, size());
        const auto type = mpi_type(input.dtype);
        const auto block = output.count();
        const bool in_place = output.data == at(input, block * rank());
        return start("reduce_scatter", input, [&](MpiTransfer& transfer) {
            if (!in_place && input.count() <= handle_->job->largest_piece) {
                check(MPI_Ireduce_scatter_block(input.data, output.data, static_cast<int>(block), type,
                                                mpi_op(op), handle_->comm, transfer.add()),
                      "MPI_Ireduce_scatter_block");
                return;
            }
            // MPI's in-place form puts the result elsewhere, and its blocks cannot be cut: one reduction per
            // root.
            for (int root = 0; root < size(); ++root)
                for_pieces(block, [&](std::int64_t first, int count) {
                    std::byte* const from = at(input, block * root + first);
                    const bool mine = root == rank();
                    check(MPI_Ireduce(mine && in_place ? MPI_IN_PLACE : from,
                                      mine ? at(output, first) : nullptr, count, type, mpi_op(op), root,
                                      handle_->comm, transfer.add()),
                          "MPI_Ireduce");
                });
        });
    }

    Work all_gather(const TensorView& input, const TensorView& output) override {
        require_blocks("all_gather", output, input, size());
        const auto block = static_cast<std::int64_t>(input.bytes());
        std::byte* const own = output.data + block * rank();
        const bool in_place = input.data == own;
        return start("all_gather", input, [&](MpiTransfer& transfer) {
            if (block * size() <= handle_->job->largest_piece) {
                const int count = static_cast<int>(block);
                check(MPI_Iallgather(in_place ? MPI_IN_PLACE : input.data, count, MPI_BYTE, output.data,
                                     count, MPI_BYTE, handle_->comm, transfer.add()),
                      "MPI_Iallgather");
                return;
            }
            if (!in_place) std::memcpy(own, input.data, input.bytes());
            for (int root = 0; root < size(); ++root)
                broadcast_bytes(transfer, output.data + block * root, block, root);
        });
    }

    Work broadcast(const TensorView& buffer, int root) override {
        require_root("broadcast", root, size());
        return start("broadcast", buffer, [&](MpiTransfer& transfer) {
            broadcast_bytes(transfer, buffer.data, static_cast<std::int64_t>(buffer.bytes()), root);
        });
    }

    void barrier() override {
        require_whole_job();
        MpiTransfer transfer(handle_, "barrier", 0, DType::u8);
        check(MPI_Ibarrier(handle_->comm, transfer.add()), "MPI_Ibarrier");
        transfer.wait();
    }

    std::unique_ptr<Communicator> duplicate() override {
        require_whole_job();
        auto copy = std::make_shared<Handle>();
        copy->job = handle_->job;
        copy->rank = rank();
        copy->size = size();
        MpiTransfer transfer(handle_, "duplicate", 0, DType::u8);
        check(MPI_Comm_idup(handle_->comm, &copy->comm, transfer.add()), "MPI_Comm_idup");
        transfer.wait();
        copy->owned = true;
        check(MPI_Comm_set_errhandler(copy->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
        return std::make_unique<MpiCommunicator>(std::move(copy));
    }

    [[noreturn]] void abort(ExitCode code) noexcept override {
        std::fflush(nullptr);
        MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
        std::_Exit(static_cast<int>(code));
    }

  private:
    void check(int code, const char* call) const { handle_->check(code, call); }

    void require_whole_job() const {
        if (!handle_->job->broken.empty())
            throw PeerError("rank " + std::to_string(rank()) + " on " + mpi_host() +
                            " cannot reach its peers: " + handle_->job->broken);
    }

    static std::byte* at(const TensorView& buffer, std::int64_t element) {
        return buffer.data + element * static_cast<std::int64_t>(size_of(buffer.dtype));
    }

    template <class Issue>
    Work start(const char* call, const TensorView& buffer, const Issue& issue) {
        require_whole_job();
        if (buffer.count() == 0) return {};
        auto transfer = std::make_unique<MpiTransfer>(handle_, call, buffer.count(), buffer.dtype);
        issue(*transfer);
        return Work(std::move(transfer));
    }

    template <class Piece>
    void for_pieces(std::int64_t count, const Piece& piece) const {
        for (std::int64_t first = 0; first < count; first += handle_->job->largest_piece)
            piece(first, static_cast<int>(std::min(handle_->job->largest_piece, count - first)));
    }

    void broadcast_bytes(MpiTransfer& transfer, std::byte* data, std::int64_t bytes, int root) const {
        for_pieces(bytes, [&](std::int64_t first, int count) {
            check(MPI_Ibcast(data + first, count, MPI_BYTE, root, handle_->comm, transfer.add()),
                  "MPI_Ibcast");
        });
    }

    std::shared_ptr<const Handle> handle_;
};

}  // namespace

void check_mpi(int code, const char* call, int rank) {
    if (code == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
    throw PeerError(std::string(call) + " failed on rank " + std::to_string(rank) + ": " +
                        std::string(text.data(), static_cast<std::size_t>(length)) + " (code " +
                        std::to_string(code) + ")",
                    "look for the first error of another rank");
}

std::string mpi_host() {
    std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
    int length = 0;
    if (MPI_Get_processor_name(name.data(), &length) != MPI_SUCCESS) return {};
    return {name.data(), static_cast<std::size_t>(length)};
}

std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm handle, double timeout,
                                                    std::int64_t largest_piece,
                                                    std::function<void(const std::string&)> notice) {
    auto state = std::make_shared<Handle>();
    state->comm = handle;
    state->job = std::make_shared<Job>(Job{timeout, largest_piece, std::move(notice), false, {}});
    state->check(MPI_Comm_rank(handle, &state->rank), "MPI_Comm_rank");
    state->check(MPI_Comm_size(handle, &state->size), "MPI_Comm_size");
    return std::make_unique<MpiCommunicator>(std::move(state));
}

}  // namespace tutti
