#include "host_peers.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

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

/// While it lives, this process can open no file.
class NoMoreFiles {
  public:
    NoMoreFiles() {
        getrlimit(RLIMIT_NOFILE, &before_);
        const rlimit none{0, before_.rlim_max};
        setrlimit(RLIMIT_NOFILE, &none);
    }
    NoMoreFiles(const NoMoreFiles&) = delete;
    NoMoreFiles& operator=(const NoMoreFiles&) = delete;
    ~NoMoreFiles() { setrlimit(RLIMIT_NOFILE, &before_); }

  private:
    rlimit before_{};
};

TEST(HostPeers, declares_nobody_dead_where_it_may_open_no_files) {
    Child child;
    const HostPeers peers = peers_of(child.place());
    std::string ended, ended_or_stopped;
    {
        const NoMoreFiles full;
        ended = peers.ended();
        ended_or_stopped = peers.ended_or_stopped();
    }
    EXPECT_EQ(ended, "");
    EXPECT_EQ(ended_or_stopped, "");
    child.end();
    EXPECT_EQ(peers.ended(), child.named() + "has ended");
}

TEST(HostPeers, does_not_trust_the_proc_of_another_namespace) {
    enum Outcome { refused, trusted, no_namespace };
    const pid_t middle = fork();
    if (middle == 0) {
        if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) _exit(no_namespace);
        // In the inner namespace this number is nobody's, but /proc shows the process that has it here.
        const pid_t here = getpid();
        const pid_t inner = fork();
        if (inner == 0) _exit(place_of_process(here, host).process == 0 ? refused : trusted);
        int status = 0;
        if (inner < 0 || waitpid(inner, &status, 0) != inner || !WIFEXITED(status)) _exit(no_namespace);
        _exit(WEXITSTATUS(status));
    }
    int status = 0;
    ASSERT_EQ(waitpid(middle, &status, 0), middle);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == no_namespace) GTEST_SKIP() << "this system lets nobody make a namespace";
    EXPECT_EQ(WEXITSTATUS(status), refused);
}

TEST(HostPeers, are_looked_at_less_often_the_more_there_are) {
    using std::chrono::milliseconds;
    const Child child;
    EXPECT_EQ(peers_of(child.place()).interval(), milliseconds(200));
    std::vector<ProcessPlace> places(129, child.place());
    EXPECT_EQ(HostPeers(0, host, places).interval(), milliseconds(2560));
}

}  // namespace
}  // namespace tutti
