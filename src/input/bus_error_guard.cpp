#include "bus_error_guard.hpp"

#include <csetjmp>
#include <csignal>

namespace tutti {
namespace {

// Where this thread goes on after a SIGBUS; null outside of without_bus_error.
thread_local sigjmp_buf* volatile way_out = nullptr;

struct sigaction& former_action() {
    static struct sigaction action {};
    return action;
}

void handle(int number, siginfo_t* info, void* context) {
    // These codes are about an access of this very thread; kill(2) and notices of bad memory elsewhere have
    // others.
    if (way_out != nullptr && (info->si_code == BUS_ADRERR || info->si_code == BUS_MCEERR_AR))
        siglongjmp(*way_out, 1);
    const struct sigaction& former = former_action();
    // Asked to be called once: if it returns, the access is made again, and ends the process.
    if ((former.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) signal(number, SIG_DFL);
    if ((former.sa_flags & SA_SIGINFO) != 0) {
        former.sa_sigaction(number, info, context);
    } else if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) {
        former.sa_handler(number);
    } else {
        // With the default action back the access is made again, and ends the process as it would have.
        signal(number, SIG_DFL);
        if (info->si_code <= 0) raise(number);
    }
}

bool install() {
    struct sigaction action {};
    action.sa_sigaction = handle;
    // Not blocked in the handler: it is left by a jump, which would leave it blocked.
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, &former_action()) == 0;
}

}  // namespace

bool without_bus_error(void (*work)(void*), void* argument) {
    static const bool installed = install();
    if (!installed) return false;
    sigjmp_buf here;
    if (sigsetjmp(here, 0) != 0) {
        way_out = nullptr;
        return false;
    }
    way_out = &here;
    work(argument);
    way_out = nullptr;
    return true;
}

}  // namespace tutti
