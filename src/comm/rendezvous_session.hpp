#pragma once
// Private to comm: a job without MPI.

#include <memory>
#include <string>
#include <vector>

#include "gloo_mesh.hpp"
#include "tutti/comm/session.hpp"

namespace tutti {

/// Ranks that met at MASTER_ADDR and MASTER_PORT; gloo carries their collectives. One rank needs neither.
class RendezvousSession final : public Session {
  public:
    /// As start_session.
    RendezvousSession(const Environment& environment, const StartPatience& patience, const Notice& report);

    int rank() const override { return rank_; }
    int size() const override { return size_; }
    int local_rank() const override { return local_rank_; }
    int local_size() const override { return local_size_; }
    std::string host() const override { return host_; }
    Bootstrap bootstrap() const override { return Bootstrap::rendezvous; }
    std::unique_ptr<Communicator> world(double timeout, Notice notice = {}) override;

  private:
    void count_neighbours(const std::vector<std::string>& hosts);

    int rank_ = 0;
    int size_ = 1;
    int local_rank_ = 0;
    int local_size_ = 1;
    std::string host_;
    std::shared_ptr<GlooMesh> mesh_;  ///< absent with one rank
};

}  // namespace tutti
