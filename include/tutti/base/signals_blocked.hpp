#pragma once
// Threads that no signal interrupts.

#include <signal.h>

#include <initializer_list>

namespace tutti {

/// While it lives, the calling thread takes no signals but those of `but`, and neither do, for all their
/// life, threads that it starts: signals are for the threads that look for them.
class SignalsBlocked {
  public:
    explicit SignalsBlocked(std::initializer_list<int> but = {}) {
        sigset_t blocked;
        sigfillset(&blocked);
        for (const int signal : but) sigdelset(&blocked, signal);
        pthread_sigmask(SIG_SETMASK, &blocked, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t before_{};
};

}  // namespace tutti
