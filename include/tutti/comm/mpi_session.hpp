#pragma once
// MPI from start to end of the process.

#include <memory>
#include <span>
#include <string>

#include "tutti/comm/session.hpp"

namespace tutti {

/// MPI_Init_thread(FUNNELED) … MPI_Finalize.
class MpiSession final : public Session {
  public:
    /// As start_session. Throws LaunchError when MPI cannot be started.
    explicit MpiSession(const StartPatience& patience = {});
    ~MpiSession() override;
    MpiSession(const MpiSession&) = delete;
    MpiSession& operator=(const MpiSession&) = delete;

    int rank() const override;
    int size() const override;
    /// MPI_Comm_split_type(SHARED).
    int local_rank() const override;
    int local_size() const override;
    /// MPI_Get_processor_name.
    std::string host() const override;
    Bootstrap bootstrap() const override { return Bootstrap::mpi; }
    /// "Open MPI v4.1.4 …", one line. Needs no session.
    static std::string library_version();

    std::unique_ptr<Communicator> world(double timeout, Notice notice = {}) override;

    /// The sum over all ranks of MPI_COMM_WORLD by one blocking MPI_Allreduce, in place, f32: what a program
    /// of its own would call. For comparisons: a peer that does not come is waited for without end.
    void bare_all_reduce(std::span<float> buffer);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace tutti
