#pragma once
// Private to comm: which ranks do not wait, when one has waited too long, and what do the others wait in?

#include <mpi.h>

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

/// MPI's own collectives do not tell who has not come. Who reaches its time-out tells rank 0, which asks all
/// ranks; those that wait, too, answer at once in what call, and rank 0 tells them who has not, and whether
/// the calls differ. Some 3 messages per rank, of at most 2 KiB. Nothing blocks but silent(), and listen() on
/// rank 0 once somebody is overdue: for as long as Patience says. One thread at a time, as all calls of a
/// job. A call of MPI that fails counts as no message.
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

    struct Verdict {
        std::vector<int> silent;  ///< ranks that do not wait, ascending; empty: all do
        /// Where all wait, but not in the same call: "rank 0: all_reduce of 10 f32; ranks 1, 2: barrier".
        std::string unlike = {};
        bool guessed = false;  ///< without a word from rank 0, which therefore is the silent one
    };

    /// For a rank that waits in `call` and has time left: answers who asks. The verdict once rank 0 has found
    /// out; nothing before.
    std::optional<Verdict> listen(const std::string& call);
    /// For a rank that has waited too long.
    Verdict ask(const std::string& call);

    static constexpr int first_tag = 16385;

  private:
    enum Message { overdue, question, here, verdict };

    bool has_come(Message message, int from, int& source);
    void send(Message message, int to, const std::string& text = {});
    std::string receive(Message message, int from);
    std::optional<Verdict> answer(const std::string& call);
    Verdict ask_all(const std::string& call);
    void move_on();

    MPI_Comm comm_;
    int rank_, size_;
    Patience patience_;
    std::vector<std::optional<std::string>> calls_;  ///< on rank 0, by rank, of those that wait
    std::deque<std::string> texts_;                  ///< of sends, which nobody waits for
    std::vector<MPI_Request> sends_;
};

}  // namespace tutti
