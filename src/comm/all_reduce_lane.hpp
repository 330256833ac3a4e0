#pragma once
// An own way of doing all-reduces, and what they are made of, beside MPI's.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/comm/communicator.hpp"

namespace tutti {

/// Requests of one communicator, the same on every rank and in the same order. One thread at a time. Nothing
/// blocks.
class AllReduceLane {
  public:
    AllReduceLane() = default;
    AllReduceLane(const AllReduceLane&) = delete;
    AllReduceLane& operator=(const AllReduceLane&) = delete;
    virtual ~AllReduceLane() = default;

    /// Appends a request (in place, at least one element) and returns its number, counted from 0. The buffer
    /// must stay until the request is finished or stop() was called.
    virtual std::uint64_t issue(const TensorView& buffer, ReduceOp op) = 0;
    /// The same for a reduce-scatter and an all-gather, with at least one element per rank; input and output
    /// as in Communicator. Nothing for an all-gather that is left to MPI.
    virtual std::uint64_t issue_reduce_scatter(const TensorView& input, const TensorView& output,
                                               ReduceOp op) = 0;
    virtual std::optional<std::uint64_t> issue_all_gather(const TensorView& input,
                                                          const TensorView& output) = 0;
    /// And for Communicator::reduce_then_gather; nothing where that does not go piece by piece.
    virtual std::optional<std::uint64_t> issue_reduce_then_gather(const TensorView&, const TensorView&,
                                                                  const Communicator::UseSums&) {
        return std::nullopt;
    }
    virtual bool reduces_then_gathers_by_piece() const { return false; }
    /// Does what the peers' state allows, for all requests. What it throws is the lane's end, as is stop().
    void progress();
    /// Whether progress() lets MPI go on, too, as long as a request is not finished.
    virtual bool drives_mpi() const { return false; }
    virtual bool finished(std::uint64_t request) const = 0;
    /// Ranks from which what the oldest request needs has not come, as far as a lane can tell.
    virtual std::vector<int> awaited() const { return {}; }
    /// Touches no buffer any more: their owners have given up waiting, as `why` says. The first reason
    /// counts.
    void stop(const std::string& why);
    /// Why it has ended, for all that use it; empty while it has not.
    virtual const std::string& ended_by() const { return ended_by_; }
    /// One of ways (all_reduce_path.hpp).
    virtual const char* name() const = 0;

  protected:
    virtual void work_off() = 0;
    /// No request is worked off any more.
    virtual void halt() = 0;

  private:
    std::string ended_by_;
};

/// The lanes of a process. Who waits for MPI on one communicator must drive the lanes of all others, too: its
/// peer may wait for one of them first.
class Lanes {
  public:
    void add(AllReduceLane* lane) { lanes_.push_back(lane); }
    void remove(AllReduceLane* lane) { std::erase(lanes_, lane); }
    /// Of all but one, which had its turn.
    void progress(const AllReduceLane* but = nullptr) {
        for (AllReduceLane* lane : lanes_)
            if (lane != but) lane->progress();
    }

  private:
    std::vector<AllReduceLane*> lanes_;
};

}  // namespace tutti
