#pragma once
// Private to comm: which ranks do not wait, when one has waited too long?

#include <mpi.h>

#include <chrono>
#include <deque>
#include <optional>
#include <vector>

namespace tutti {

/// MPI's own collectives do not tell who has not come. Who reaches its time-out tells rank 0, which asks all
/// ranks; those that wait, too, in whatever call, answer at once, and rank 0 tells them who has not. Some 3
/// messages per rank, of no byte or up to 1 KiB. Nothing blocks but silent(), and listen() on rank 0 once
/// somebody is overdue: for as long as Patience says. One thread at a time, as all calls of a job. A call of
/// MPI that fails counts as no message.
class RollCall {
  public:
    struct Patience {
        std::chrono::milliseconds answers{1500};  ///< rank 0's, for the others' answers
        std::chrono::milliseconds verdict{3000};  ///< the others', for what rank 0 has found
    };

    /// comm: of all ranks, must outlive this and return errors; messages have the four tags from `first_tag`
    /// on.
    RollCall(MPI_Comm comm, int rank, int size, Patience patience);
    RollCall(MPI_Comm comm, int rank, int size) : RollCall(comm, rank, size, Patience()) {}
    RollCall(const RollCall&) = delete;
    RollCall& operator=(const RollCall&) = delete;

    /// For a rank that waits and has time left: answers who asks. The silent ranks, ascending, once rank 0
    /// has found out (an empty list: all wait); nothing before.
    std::optional<std::vector<int>> listen();
    /// For a rank that has waited too long: the silent ranks. Without a word from rank 0 that is rank 0.
    std::vector<int> silent();

    static constexpr int first_tag = 16385;

  private:
    enum Message { overdue, question, here, verdict };

    bool has_come(Message message, int from, int& source);
    void send(Message message, int to, const std::vector<int>& ranks = {});
    void receive(Message message, int from);
    std::optional<std::vector<int>> answer();
    std::vector<int> ask_all();
    void move_on();

    MPI_Comm comm_;
    int rank_, size_;
    Patience patience_;
    std::vector<char> present_;           ///< on rank 0, by rank
    std::deque<std::vector<int>> texts_;  ///< of sends, which nobody waits for
    std::vector<MPI_Request> sends_;
};

}  // namespace tutti
