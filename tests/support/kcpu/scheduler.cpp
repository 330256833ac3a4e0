// Compiled without -fsanitize=thread and without link-time optimization: barriers must stay opaque calls.
#include "scheduler.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "block.hpp"

namespace tutti::kcpu {

Now now;

namespace {

std::mutex gate;  // threadIdx and the like are one for the process
Order order = Order::forward;
std::mt19937 generator(1);
Block* running = nullptr;

}  // namespace

void set_order(Order new_order, unsigned seed) {
    order = new_order;
    generator.seed(seed);
}

namespace {
LaunchObserver* observer = nullptr;
}
void observe_launches(LaunchObserver* new_observer) {
    observer = new_observer;
}
void issue(const char* kernel, const void* stream, std::function<void()> work) {
    if (observer)
        observer->launch(kernel, stream, std::move(work));
    else
        work();
}

void run(const char* kernel, Extent grid, Extent block, SharedMemory shared,
         const std::function<void()>& body) {
    if (running) fail("a launch inside a kernel");
    const auto refuse = [kernel](const std::string& why) {
        throw Error(std::string("kcpu: ") + kernel + ": " + why);
    };
    // CUDA C++ Programming Guide, "Compute Capabilities", technical specifications.
    if (block.count() == 0 || block.count() > 1024 || block.z > 64)
        refuse("a block of " + std::to_string(block.count()) + " threads cannot be launched");
    if (grid.count() == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
        refuse("a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " +
               std::to_string(grid.z) + " blocks cannot be launched");
    if (shared.dynamic > shared.most)
        refuse("more than " + std::to_string(shared.most >> 10) + " KiB of shared memory");

    const std::lock_guard<std::mutex> lock(gate);
    races_begin();
    Block work(kernel, grid, block, shared, order, generator, body);
    running = &work;
    now.in_kernel = true;
    const std::uint64_t blocks = grid.count();
    for (std::uint64_t i = 0; i < blocks && work.error().empty(); ++i)
        work.run(order == Order::forward ? i : blocks - 1 - i);
    now.in_kernel = false;
    running = nullptr;
    const std::string races = races_end();
    if (!work.error().empty()) throw Error(work.error());
    if (!races.empty()) throw Error(std::string("kcpu: ") + kernel + ": " + races);
}

void fail(const std::string& problem) {
    running->fail(problem);
}
void* shared_variable(const void* key, std::size_t bytes, const char* name) {
    return running->shared_variable(key, bytes, name);
}
void* dynamic_shared_memory() {
    return running->dynamic_shared_memory();
}
int block_barrier(int value, const Place& place) {
    return running->barrier(value, place);
}
Exchange exchange(WarpOperation operation, unsigned mask, std::span<const std::uint64_t> words,
                  const Place& place) {
    return running->exchange(operation, mask, words, place);
}
void add_pending_copy(const PendingCopy& copy) {
    running->add_copy(copy);
}
bool take_pending_copy(PendingCopy& copy) {
    return running->take_copy(copy);
}

}  // namespace tutti::kcpu
