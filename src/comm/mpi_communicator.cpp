#include "mpi_communicator.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>

#include "checks.hpp"
#include "exchange_lane.hpp"
#include "mpi_transfer.hpp"
#include "tutti/base/last_output.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/comm/all_reduce_path.hpp"

namespace tutti {
namespace {

MPI_Datatype mpi_type(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return MPI_FLOAT;
        case DType::f64:
            return MPI_DOUBLE;
        case DType::i64:
            return MPI_INT64_T;
        case DType::bf16:
            return MPI_UINT16_T;  // of one rank, where nothing is added; more have a lane for it
        case DType::u8:
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

/// MPI_Abort returns when the launcher has answered. srun's part on a host that is cut off does not: this
/// rank ends all the same.
void end_soon(ExitCode code) noexcept {
    constexpr std::chrono::seconds patience(5);
    try {
        std::thread([=] {
            std::this_thread::sleep_for(patience);
            std::_Exit(static_cast<int>(code));
        }).detach();
    } catch (const std::system_error&) {
        // No thread to be had: then as long as MPI takes.
    }
}

class MpiCommunicator final : public Communicator {
  public:
    explicit MpiCommunicator(std::shared_ptr<const Handle> handle) : handle_(std::move(handle)) {}

    int rank() const override { return handle_->rank; }
    int size() const override { return handle_->size; }
    std::string backend() const override { return "mpi"; }
    std::string all_reduce_path() const override { return handle_->lane ? handle_->lane->name() : ways::mpi; }
    std::string bf16_path() const override {
        return handle_->lane || size() == 1 ? all_reduce_path() : ways::direct_exchange;
    }
    bool sums_in_fixed_order() const override { return handle_->lane || size() <= 2; }

    Work all_reduce(const TensorView& buffer, ReduceOp op) override {
        require_reducible("all_reduce", buffer);
        if (const auto lane = lane_for(buffer.dtype)) {
            require_whole_job();
            if (buffer.count() == 0) return {};
            return on_lane(lane, "all_reduce", buffer, lane->issue(buffer, op));
        }
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
        if (const auto lane = lane_for(input.dtype)) {
            require_whole_job();
            if (input.count() == 0) return {};
            return on_lane(lane, "reduce_scatter", input, lane->issue_reduce_scatter(input, output, op));
        }
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
        if (handle_->lane) {
            require_whole_job();
            if (input.count() == 0) return {};
            if (const auto request = handle_->lane->issue_all_gather(input, output))
                return on_lane(handle_->lane, "all_gather", input, *request);
        }
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

    Work reduce_then_gather(const TensorView& input, const TensorView& output, UseSums use) override {
        if (!reduces_then_gathers_by_piece()) return Communicator::reduce_then_gather(input, output, use);
        require_pair("reduce_then_gather", input, output, size());
        require_whole_job();
        if (input.count() == 0) return {};
        return on_lane(handle_->lane, "reduce_then_gather", input,
                       handle_->lane->issue_reduce_then_gather(input, output, use).value());
    }

    bool reduces_then_gathers_by_piece() const override {
        return handle_->lane && handle_->lane->reduces_then_gathers_by_piece();
    }

    Work broadcast(const TensorView& buffer, int root) override {
        require_root("broadcast", root, size());
        return start("broadcast", buffer, [&](MpiTransfer& transfer) {
            broadcast_bytes(transfer, buffer.data, static_cast<std::int64_t>(buffer.bytes()), root);
        });
    }

    Work exchange(const TensorView& send, const TensorView& receive, int peer) override {
        require_pair(send, receive, peer, rank(), size());
        return start("exchange", send, [&](MpiTransfer& transfer) {
            for_pieces(static_cast<std::int64_t>(send.bytes()), [&](std::int64_t first, int count) {
                check(MPI_Irecv(receive.data + first, count, MPI_BYTE, peer, exchange_tag, handle_->comm,
                                transfer.add()),
                      "MPI_Irecv");
                check(MPI_Isend(send.data + first, count, MPI_BYTE, peer, exchange_tag, handle_->comm,
                                transfer.add()),
                      "MPI_Isend");
            });
        });
    }

    void barrier() override {
        require_whole_job();
        MpiTransfer transfer(handle_, "barrier", 0, DType::u8);
        check(MPI_Ibarrier(handle_->comm, transfer.add()), "MPI_Ibarrier");
        transfer.wait();
    }

    void watch_peers(const std::string& call, double waited) override {
        handle_->job->watch({.call = [&] { return call; }, .rank = handle_->world_rank}, Job::Clock::now(),
                            waited);
    }

    std::unique_ptr<Communicator> duplicate() override {
        require_whole_job();
        auto copy = std::make_shared<Handle>();
        copy->job = handle_->job;
        copy->rank = copy->world_rank = rank();
        copy->size = size();
        MpiTransfer transfer(handle_, "duplicate", 0, DType::u8);
        check(MPI_Comm_idup(handle_->comm, &copy->comm, transfer.add()), "MPI_Comm_idup");
        transfer.wait();
        copy->owned = true;
        check(MPI_Comm_set_errhandler(copy->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
        copy->lanes = handle_->lanes;
        copy->crowded = handle_->crowded;
        copy->layout = handle_->layout;
        copy->make_lane = handle_->make_lane;
        if (copy->make_lane != nullptr) copy->lane = copy->make_lane(copy);
        return std::make_unique<MpiCommunicator>(std::move(copy));
    }

    [[noreturn]] void abort(ExitCode code) noexcept override {
        keep_exit_code(static_cast<int>(code));
        end_soon(code);  // also where nobody takes the output
        hand_over_output();
        MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
        std::_Exit(static_cast<int>(code));
    }

  private:
    void check(int code, const char* call) const { handle_->check(code, call); }

    /// Null: MPI's own reductions. They would round a bf16 sum after each addition, so bf16 goes by direct
    /// exchange where nothing else is there, however many ranks there are.
    std::shared_ptr<AllReduceLane> lane_for(DType dtype) {
        if (handle_->lane || dtype != DType::bf16 || size() == 1) return handle_->lane;
        if (!bf16_lane_) bf16_lane_ = std::make_shared<ExchangeLane>(*handle_, ExchangeLane::Sizes());
        return bf16_lane_;
    }

    Work on_lane(const std::shared_ptr<AllReduceLane>& lane, const char* call, const TensorView& buffer,
                 std::uint64_t request) const {
        return Work(std::make_unique<LaneTransfer>(handle_, lane, call, buffer, request));
    }

    void require_whole_job() const {
        if (handle_->is_broken())
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
        const CallPulse::Turn turn = handle_->turn();
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
    std::shared_ptr<AllReduceLane> bf16_lane_;
};

}  // namespace

std::shared_ptr<Handle> make_handle(MPI_Comm comm, double timeout, std::int64_t largest_piece,
                                    std::function<void(const std::string&)> notice) {
    auto handle = std::make_shared<Handle>();
    handle->comm = comm;
    handle->job = std::make_shared<Job>(
        Job{timeout, largest_piece, std::move(notice), false, {}, {}, {}, {}, {}, {}, {}, {}});
    handle->check(MPI_Comm_rank(comm, &handle->rank), "MPI_Comm_rank");
    handle->check(MPI_Comm_size(comm, &handle->size), "MPI_Comm_size");
    handle->world_rank = handle->rank;
    return handle;
}

std::unique_ptr<Communicator> make_mpi_communicator(std::shared_ptr<const Handle> handle) {
    return std::make_unique<MpiCommunicator>(std::move(handle));
}

std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm comm, double timeout, std::int64_t largest_piece,
                                                    std::function<void(const std::string&)> notice) {
    return make_mpi_communicator(make_handle(comm, timeout, largest_piece, std::move(notice)));
}

}  // namespace tutti
