#pragma once
// A stack of its own for each CUDA thread, switched by hand. On x86-64 a switch is twelve instructions; any
// other machine (or -DKCPU_UCONTEXT) takes the C library's ucontext, ten times slower.

#include <cstddef>
#include <cstdint>

namespace tutti::kcpu {

/// Not movable: the code that runs on it holds its address. Dropping a fiber that has not ended abandons what
/// is on its stack; kernels have nothing there that needs a destructor.
class Fiber {
  public:
    /// `entry(argument)` starts at the first resume() and must never return.
    Fiber(void (*entry)(void*), void* argument);
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    /// From the scheduler: goes on until the fiber yields.
    void resume();
    /// From the fiber itself, to the scheduler, or to another one, which then yields in its place.
    void yield();
    void switch_to(Fiber& next);
    bool on_stack(std::uintptr_t address) const {
        return address - reinterpret_cast<std::uintptr_t>(stack_) < stack_bytes;
    }

  private:
    static constexpr std::size_t stack_bytes = 256 * 1024, guard_bytes = 4096;
    [[noreturn]] static void start();

    void (*const entry_)(void*);
    void* const argument_;
    char* stack_ = nullptr;
    void* position_ = nullptr;    ///< the stack pointer, or the ucontext
    void* fake_stack_ = nullptr;  ///< of AddressSanitizer
};

}  // namespace tutti::kcpu
