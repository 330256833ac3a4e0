#include "fiber.hpp"

#include <sys/mman.h>
#include <ucontext.h>

#include <new>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace tutti::kcpu {
namespace {

// One scheduler in one thread (scheduler.cpp holds a lock).
Fiber* current = nullptr;
// Who has switched last.
[[maybe_unused]] bool from_scheduler = true;
// Of fibers that are gone: mapping a stack costs more than most kernels' threads do on it.
std::vector<char*> free_stacks;

// AddressSanitizer must know which stack is in use; elsewhere these do nothing.
#if defined(__SANITIZE_ADDRESS__)
void* scheduler_fake_stack = nullptr;
const void* scheduler_bottom = nullptr;
std::size_t scheduler_bytes = 0;
void before_switch_to_fiber(const char* stack, std::size_t bytes) {
    __sanitizer_start_switch_fiber(&scheduler_fake_stack, stack, bytes);
}
void after_switch_to_scheduler() {
    __sanitizer_finish_switch_fiber(scheduler_fake_stack, nullptr, nullptr);
}
void before_switch_between(void** fake_stack, const char* stack, std::size_t bytes) {
    __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
}
void before_switch_to_scheduler(void** fake_stack) {
    __sanitizer_start_switch_fiber(fake_stack, scheduler_bottom, scheduler_bytes);
}
void after_switch_to_fiber(void* fake_stack) {
    const void* bottom = nullptr;
    std::size_t bytes = 0;
    __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
    if (!from_scheduler) return;
    scheduler_bottom = bottom;
    scheduler_bytes = bytes;
}
void forget_stack(char* stack, std::size_t bytes) {
    __asan_unpoison_memory_region(stack, bytes);
}
#else
void before_switch_to_fiber(const char*, std::size_t) {}
void after_switch_to_scheduler() {}
void before_switch_between(void**, const char*, std::size_t) {}
void before_switch_to_scheduler(void**) {}
void after_switch_to_fiber(void*) {}
void forget_stack(char*, std::size_t) {}
#endif

#if defined(__x86_64__) && !defined(KCPU_UCONTEXT)
void* scheduler_position = nullptr;

// Saves the registers that a function must preserve (System V ABI, 3.2.1) and the stack pointer, and takes
// over those of the other side.
extern "C" void kcpu_switch_stack(void** save, void* to);
asm(R"(.text
.globl kcpu_switch_stack
.type kcpu_switch_stack,@function
kcpu_switch_stack:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp,(%rdi)
  mov %rsi,%rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size kcpu_switch_stack,.-kcpu_switch_stack
)");

void* first_position(char* stack, std::size_t bytes, void (*start)()) {
    // As after a call: the stack pointer is 8 off a multiple of 16, with the return address popped.
    void** top = reinterpret_cast<void**>(stack + bytes) - 3;
    *--top = reinterpret_cast<void*>(start);
    for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
    return top;
}
void switch_to_fiber(void*& position) {
    kcpu_switch_stack(&scheduler_position, position);
}
void switch_between(void*& position, void* next) {
    kcpu_switch_stack(&position, next);
}
void switch_to_scheduler(void*& position) {
    switch_between(position, scheduler_position);
}
void free_position(void*) {}
#else
ucontext_t scheduler_context;

void* first_position(char* stack, std::size_t bytes, void (*start)()) {
    auto* context = new ucontext_t;
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = bytes;
    context->uc_link = nullptr;
    makecontext(context, start, 0);
    return context;
}
void switch_to_fiber(void*& position) {
    swapcontext(&scheduler_context, static_cast<ucontext_t*>(position));
}
void switch_between(void*& position, void* next) {
    swapcontext(static_cast<ucontext_t*>(position), static_cast<ucontext_t*>(next));
}
void switch_to_scheduler(void*& position) {
    switch_between(position, &scheduler_context);
}
void free_position(void* position) {
    delete static_cast<ucontext_t*>(position);
}
#endif

}  // namespace

Fiber::Fiber(void (*entry)(void*), void* argument) : entry_(entry), argument_(argument) {
    if (!free_stacks.empty()) {
        stack_ = free_stacks.back();
        free_stacks.pop_back();
    } else {
        void* memory = mmap(nullptr, stack_bytes + guard_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        mprotect(memory, guard_bytes, PROT_NONE);
        stack_ = static_cast<char*>(memory) + guard_bytes;
    }
    // Stacks that began at one place of a page each would share a few sets of the first cache.
    constexpr std::size_t colours = 8, line_of_calls = 512;
    static std::size_t fibers = 0;
    position_ = first_position(stack_, stack_bytes - fibers++ % colours * line_of_calls, start);
}

Fiber::~Fiber() {
    forget_stack(stack_, stack_bytes);
    free_position(position_);
    free_stacks.push_back(stack_);
}

void Fiber::start() {
    after_switch_to_fiber(nullptr);
    current->entry_(current->argument_);
    __builtin_unreachable();
}

void Fiber::resume() {
    current = this;
    from_scheduler = true;
    before_switch_to_fiber(stack_, stack_bytes);
    switch_to_fiber(position_);
    after_switch_to_scheduler();
}

void Fiber::switch_to(Fiber& next) {
    current = &next;
    from_scheduler = false;
    before_switch_between(&fake_stack_, next.stack_, stack_bytes);
    switch_between(position_, next.position_);
    after_switch_to_fiber(fake_stack_);
}

void Fiber::yield() {
    before_switch_to_scheduler(&fake_stack_);
    switch_to_scheduler(position_);
    after_switch_to_fiber(fake_stack_);
}

}  // namespace tutti::kcpu
