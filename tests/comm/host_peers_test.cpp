#include "host_peers.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace tutti {
namespace {

const std::string host = "node7";

/// A process that does nothing until it is killed.
class Child {
  public:
    Child() : process_(fork()) {
        if (process_ != 0) return;
        for (;;) pause();
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() {
        if (!reaped_) end();
    }

    void stop() const {
        kill(process_, SIGSTOP);
        int status = 0;
        waitpid(process_, &status, WUNTRACED);
    }
    /// Dead, but still in the table of processes.
    void end_unseen() const {
        kill(process_, SIGKILL);
        siginfo_t info;
        waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT);
    }
    void end() {
        kill(process_, SIGKILL);
        waitpid(process_, nullptr, 0);
        reaped_ = true;
    }
    ProcessPlace place() const { return place_of_process(process_, host); }
    std::string named() const { return "rank 1 on node7, process " + std::to_string(process_) + ", "; }

  private:
    pid_t process_;
    bool reaped_ = false;
};

HostPeers peers_of(const ProcessPlace& other) {
    return HostPeers(0, host, {place_of_process(getpid(), host), other});
}

TEST(HostPeers, says_nothing_of_ranks_that_run) {
    const Child child;
    const HostPeers peers = peers_of(child.place());
    EXPECT_EQ(peers.ended(), "");
    EXPECT_EQ(peers.ended_or_stopped(), "");
}

TEST(HostPeers, names_a_rank_that_was_killed) {
    Child child;
    const HostPeers peers = peers_of(child.place());
    child.end_unseen();
    EXPECT_EQ(peers.ended(), child.named() + "has ended");
    child.end();
    EXPECT_EQ(peers.ended(), child.named() + "has ended");
    EXPECT_EQ(peers.ended_or_stopped(), child.named() + "has ended");
}

TEST(HostPeers, names_a_rank_that_is_stopped_and_does_not_call_it_dead) {
    const Child child;
    const HostPeers peers = peers_of(child.place());
    child.stop();
    EXPECT_EQ(peers.ended(), "");
    EXPECT_EQ(peers.ended_or_stopped(), child.named() + "is stopped");
}

TEST(HostPeers, looks_only_at_processes_of_its_own_host_and_namespace) {
    Child child;
    ProcessPlace far = child.place(), contained = child.place(), unknown = child.place();
    ++far.host;
    ++contained.namespace_;
    unknown.process = 0;
    const HostPeers peers(0, host, {place_of_process(getpid(), host), far, contained, unknown});
    child.end();
    EXPECT_EQ(peers.ended_or_stopped(), "");
}

}  // namespace
}  // namespace tutti
