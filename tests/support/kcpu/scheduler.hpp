#pragma once
// Runs the threads of a CUDA launch on the CPU: blocks one after the other, the threads of a block as fibers
// that switch at barriers and warp operations only.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <span>
#include <stdexcept>
#include <string>

namespace tutti::kcpu {

/// What a GPU would answer with a hang, a wrong number or an aborted launch.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// In which order the threads of a block (and the blocks) go on when several could. Code without a race gives
/// the same in all.
enum class Order { forward, reverse, random };
void set_order(Order order, unsigned seed = 1);

struct Extent {
    unsigned x = 1, y = 1, z = 1;
    std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

/// What a block may have on compute capability 9.0, and without cudaFuncSetAttribute.
inline constexpr std::size_t most_shared_memory = 227 * 1024, unasked_shared_memory = 48 * 1024;

struct SharedMemory {
    std::size_t dynamic = 0;
    std::size_t most = unasked_shared_memory;  ///< with the static part
};

/// Calls `body` once per thread of the launch, with threadIdx and the like set. Throws Error for a launch
/// that CUDA would refuse, for divergent barriers, misused warp operations and races.
void run(const char* kernel, Extent grid, Extent block, SharedMemory shared,
         const std::function<void()>& body);

/// Runs each launch, when it likes.
class LaunchObserver {
  public:
    virtual ~LaunchObserver() = default;
    /// stream: what the launch was given as its CUDA stream. `work` runs it; may be kept and called later.
    virtual void launch(const char* kernel, const void* stream, std::function<void()> work) = 0;
};
/// From now on; null for nobody: launches then run at once. One at a time.
void observe_launches(LaunchObserver* observer);
void issue(const char* kernel, const void* stream, std::function<void()> work);

// What follows is called from inside a kernel.

/// Ends the launch with an Error that names the thread; never comes back.
[[noreturn]] void fail(const std::string& problem);

/// Memory of the running block: filled with 0xff (NaN) at each block's begin, of exactly that size. `key`
/// tells one variable from another.
void* shared_variable(const void* key, std::size_t bytes, const char* name);
void* dynamic_shared_memory();

using Place = std::source_location;

/// Waits for the block; gives the sum of all threads' values.
int block_barrier(int value, const Place& place);

enum class WarpOperation { sync, shuffle, ballot, load_matrices, multiply_matrices };
/// Of a lane, at most, in one exchange.
inline constexpr std::size_t exchanged_words = 3;
/// What each lane of the warp put in, and which lanes took part.
struct Exchange {
    const std::uint64_t (*words)[32];  ///< [exchanged_words][lane]
    const std::uint64_t* values;       ///< the first word of each
    unsigned lanes;
    int lane;  ///< the caller's
};
/// Waits for all lanes of the mask that have not left the kernel. The words stay valid until the caller's
/// next exchange.
Exchange exchange(WarpOperation operation, unsigned mask, std::span<const std::uint64_t> words,
                  const Place& place);
inline Exchange exchange(WarpOperation operation, unsigned mask, std::uint64_t value, const Place& place) {
    return exchange(operation, mask, {&value, 1}, place);
}

/// A copy of 16 bytes that the running thread has begun and not waited for.
struct PendingCopy {
    std::uint64_t* target = nullptr;
    const std::uint64_t* source = nullptr;
};
void add_pending_copy(const PendingCopy& copy);
/// The oldest one, which is then no more; false: there is none.
bool take_pending_copy(PendingCopy& copy);

}  // namespace tutti::kcpu
