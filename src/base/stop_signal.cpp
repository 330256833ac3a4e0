#include "tutti/base/stop_signal.hpp"

#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace tutti {
namespace {

// A signal handler can reach nothing but static storage.
std::atomic<int> last_signal{0};
std::atomic<std::int64_t> term_nanoseconds{0};
std::atomic<int> alive{0};  // StopSignals
constexpr int none_kept = -1;
std::atomic<int> kept_code{none_kept};
/// Runs out after the time that a process has to leave once SIGTERM has come; see leave_on_term().
std::atomic<timer_t> leaving{};
std::atomic<bool> leaves{false};  // there is that timer
constexpr long leaving_nanoseconds = 500'000'000;

/// Of what a handler may do, posting a semaphore is all that wakes a thread (signal-safety(7)).
sem_t* noted() noexcept {
    struct Semaphore {
        Semaphore() noexcept { sem_init(&one, 0, 0); }
        sem_t one{};
    };
    static Semaphore semaphore;
    return &semaphore.one;
}

std::int64_t now_nanoseconds() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

void note(int number) {
    last_signal.store(number);
    std::int64_t none = 0;
    if (number == SIGTERM) term_nanoseconds.compare_exchange_strong(none, now_nanoseconds());
    const int error = errno;
    sem_post(noted());
    errno = error;
}

/// The thread's signals get a stack of their own, unless it has one. oneDNN 2.6 generates products for AVX2
/// that keep numbers below the stack pointer, farther than the 128 bytes of the ABI's red zone: a handler on
/// the same stack overwrote them, which crashed the rank; it could as well change its numbers.
void give_signals_a_stack() {
    alignas(64) static std::array<std::byte, 1 << 16> memory;
    stack_t stack{};
    if (sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) == 0) return;
    stack.ss_sp = memory.data();
    stack.ss_size = memory.size();
    stack.ss_flags = 0;
    sigaltstack(&stack, nullptr);
}

void install(int number, void (*handler)(int), int flags) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, nullptr);
}

void (*handler_of(int number))(int) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    return action.sa_handler;
}

[[noreturn]] void leave(int) {
    _exit(kept_code.load());
}

/// By a timer, which a handler may set, unlike a thread (signal-safety(7)). More signals change nothing.
void leave_soon(int) {
    const int error = errno;
    itimerspec left{};
    timer_gettime(leaving.load(), &left);
    if (left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0) {
        left.it_value.tv_nsec = leaving_nanoseconds;
        timer_settime(leaving.load(), 0, &left, nullptr);
    }
    errno = error;
}

void hold(int number, int how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    pthread_sigmask(how, &set, nullptr);
}

}  // namespace

void hold_preemption_notice() noexcept {
    hold(SIGUSR1, SIG_BLOCK);
}

void release_preemption_notice() noexcept {
    install(SIGUSR1, SIG_DFL, 0);  // jobs/run.sh starts the program with it ignored
    hold(SIGUSR1, SIG_UNBLOCK);
}

void keep_exit_code(int code) noexcept {
    kept_code.store(code);
    install(SIGTERM, SIG_IGN, 0);
    install(SIGINT, SIG_DFL, 0);
}

void leave_on_term() noexcept {
    if (kept_code.load() == none_kept) return;
    install(SIGALRM, leave, 0);
    sigevent alarm{};
    alarm.sigev_notify = SIGEV_SIGNAL;
    alarm.sigev_signo = SIGALRM;
    timer_t timer{};
    if (!leaves.load() && timer_create(CLOCK_MONOTONIC, &alarm, &timer) == 0) {
        leaving.store(timer);
        leaves.store(true);
    }
    hold(SIGALRM, SIG_UNBLOCK);
    install(SIGTERM, leaves.load() ? leave_soon : leave, SA_RESTART);
}

StopSignal::StopSignal() {
    if (alive++ > 0) return;
    kept_code.store(none_kept);
    last_signal.store(0);
    term_nanoseconds.store(0);
    while (sem_trywait(noted()) == 0) {  // of an earlier one
    }
    give_signals_a_stack();
    install(SIGUSR1, note, SA_RESTART | SA_ONSTACK);
    install(SIGTERM, note, SA_RESTART | SA_ONSTACK);
    install(SIGINT, note, static_cast<int>(SA_RESTART | SA_RESETHAND | SA_ONSTACK));
    // nohup starts programs with it ignored, to go on without their terminal.
    if (handler_of(SIGHUP) != SIG_IGN) install(SIGHUP, note, SA_RESTART | SA_ONSTACK);
    hold(SIGUSR1, SIG_UNBLOCK);
}

StopSignal::~StopSignal() {
    if (--alive > 0) return;
    // A preemption notice that comes while a finished process ends has nothing left to stop.
    install(SIGUSR1, SIG_IGN, 0);
    if (kept_code.load() == none_kept) install(SIGTERM, SIG_DFL, 0);
    install(SIGINT, SIG_DFL, 0);
    if (handler_of(SIGHUP) == note) install(SIGHUP, SIG_DFL, 0);
}

int StopSignal::pending() noexcept {
    return last_signal.load();
}

void StopSignal::wait() noexcept {
    while (sem_wait(noted()) != 0 && errno == EINTR) {
    }
}

void StopSignal::wake() noexcept {
    sem_post(noted());
}

double StopSignal::seconds_since_term() noexcept {
    const std::int64_t since = term_nanoseconds.load();
    return since == 0 ? -1.0 : static_cast<double>(now_nanoseconds() - since) * 1e-9;
}

}  // namespace tutti
