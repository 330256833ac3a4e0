// Data races, found without libtsan: kernels are compiled with -fsanitize=thread, and the calls that the
// compiler puts before each access end here. Two accesses to a byte race when at least one writes, not both
// are atomic, and they come from different blocks, or from threads of one block without a barrier between
// them. That does not depend on the order in which the threads really ran.

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "cuda_language.hpp"
#include "race.hpp"

namespace tutti::kcpu {
namespace {

struct Access {
    std::uint64_t block;
    std::uint32_t block_epoch, warp_epoch;
    std::int16_t thread;
    bool made, atomic;
};
/// Of one byte. Two reads by different threads are kept: a write by the thread of one races with the other.
struct History {
    Access write, read, other_read;
};
struct Page {
    History bytes[1024];
};
struct SharedMemory {
    std::uintptr_t begin;
    std::size_t bytes;
    const char* name;
    std::vector<bool> written;
};

constexpr std::size_t most_reports = 4;
std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages;
std::uintptr_t last_key = ~std::uintptr_t{0};
Page* last_page = nullptr;
std::vector<SharedMemory> shared_memory;
std::string reports;
std::size_t found = 0;

History& history(std::uintptr_t address) {
    const std::uintptr_t key = address / 1024;
    if (key != last_key) {
        auto& page = pages[key];
        if (!page) page = std::make_unique<Page>();
        last_key = key;
        last_page = page.get();
    }
    return last_page->bytes[address % 1024];
}

bool same_thread(const Access& a, const Access& b) {
    return a.block == b.block && a.thread == b.thread;
}

bool concurrent(const Access& before, const Access& access) {
    if (!before.made || same_thread(before, access)) return false;
    if (before.block != access.block) return true;
    if (before.block_epoch != access.block_epoch) return false;
    return before.thread / 32 != access.thread / 32 || before.warp_epoch == access.warp_epoch;
}

bool conflict(const Access& before, const Access& access) {
    return concurrent(before, access) && !(before.atomic && access.atomic);
}

std::string place_of(std::uintptr_t address) {
    for (const SharedMemory& memory : shared_memory)
        if (address - memory.begin < memory.bytes)
            return std::string(memory.name) + " + " + std::to_string(address - memory.begin) + " bytes";
    return "global memory";
}

std::string thread_of(const Access& access) {
    return "thread " + std::to_string(access.thread) + " of block " + std::to_string(access.block);
}

void report(const std::string& what) {
    if (++found > most_reports) return;
    reports += (reports.empty() ? "" : "\n") + what;
}

/// False where a race was found.
bool check(History& bytes, const Access& access, bool write, std::uintptr_t address) {
    const Access* others[] = {&bytes.write, &bytes.read, &bytes.other_read};
    for (std::size_t i = 0; i < (write ? 3 : 1); ++i)
        if (conflict(*others[i], access)) {
            report(std::string("race: ") + thread_of(access) + (write ? " writes " : " reads ") +
                   place_of(address) + ", which " + thread_of(*others[i]) + (i == 0 ? " writes" : " reads") +
                   " without a barrier between them");
            return false;
        }
    return true;
}

void remember(History& bytes, const Access& access, bool write) {
    if (write) {
        bytes.write = access;
    } else if (!concurrent(bytes.read, access)) {
        bytes.read = access;
    } else {
        bytes.other_read = access;
    }
}

void check_initialised(std::uintptr_t begin, std::size_t size, bool write, const Access& access) {
    for (SharedMemory& memory : shared_memory) {
        const std::size_t offset = begin - memory.begin;
        if (offset >= memory.bytes) continue;
        if (!write && !memory.written[offset])
            report("read of uninitialised " + place_of(begin) + " by " + thread_of(access));
        const std::size_t end = std::min(memory.bytes, offset + size);
        if (write)
            for (std::size_t i = offset; i < end; ++i) memory.written[i] = true;
        return;
    }
}

bool is_index(std::uintptr_t address) {
    const auto inside = [address](const void* variable) {
        return address - reinterpret_cast<std::uintptr_t>(variable) < sizeof(uint3);
    };
    return inside(&threadIdx) || inside(&blockIdx) || inside(&blockDim) || inside(&gridDim);
}

/// What the detector does itself is not observed: of inline functions of the standard library, as of strings,
/// the linker may have taken a kernel's copy, which calls the detector.
struct Unobserved {
    Unobserved() { now.in_kernel = false; }
    ~Unobserved() { now.in_kernel = true; }
    Unobserved(const Unobserved&) = delete;
    Unobserved& operator=(const Unobserved&) = delete;
};

void observe(const void* data, std::size_t size, bool write, bool atomic) {
    if (!now.in_kernel) return;
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    if (is_index(begin) || now.fiber->on_stack(begin)) return;
    const Unobserved own_work;
    const Access access{now.block,
                        now.block_epoch,
                        now.warp_epoch[static_cast<std::size_t>(now.thread / 32)],
                        static_cast<std::int16_t>(now.thread),
                        true,
                        atomic};
    check_initialised(begin, size, write, access);
    for (std::uintptr_t address = begin; address < begin + size; ++address) {
        History& bytes = history(address);
        if (!check(bytes, access, write, address)) return;
        remember(bytes, access, write);
    }
}

}  // namespace

void races_begin() {
    pages.clear();
    last_key = ~std::uintptr_t{0};
    shared_memory.clear();
    reports.clear();
    found = 0;
}

std::string races_end() {
    return found > most_reports ? reports + "\n... " + std::to_string(found) + " in all" : reports;
}

void races_new_block() {
    for (SharedMemory& memory : shared_memory) {
        memory.written.assign(memory.bytes, false);
        for (std::size_t i = 0; i < memory.bytes; ++i) history(memory.begin + i) = {};
    }
}

void races_shared_memory(const void* data, std::size_t bytes, const char* name) {
    shared_memory.push_back(
        {reinterpret_cast<std::uintptr_t>(data), bytes, name, std::vector<bool>(bytes, false)});
}

AtomicAccess::AtomicAccess(const void* data, std::size_t bytes) {
    observe(data, bytes, true, true);
    now.in_kernel = false;
}
AtomicAccess::~AtomicAccess() {
    now.in_kernel = true;
}

}  // namespace tutti::kcpu

using tutti::kcpu::observe;

#define KCPU_ACCESS(size)                                      \
    extern "C" void __tsan_read##size(void* data) {            \
        observe(data, size, false, false);                     \
    }                                                          \
    extern "C" void __tsan_write##size(void* data) {           \
        observe(data, size, true, false);                      \
    }                                                          \
    extern "C" void __tsan_unaligned_read##size(void* data) {  \
        observe(data, size, false, false);                     \
    }                                                          \
    extern "C" void __tsan_unaligned_write##size(void* data) { \
        observe(data, size, true, false);                      \
    }
KCPU_ACCESS(1)
KCPU_ACCESS(2)
KCPU_ACCESS(4)
KCPU_ACCESS(8)
KCPU_ACCESS(16)
#undef KCPU_ACCESS
extern "C" void __tsan_read_range(void* data, std::size_t size) {
    observe(data, size, false, false);
}
extern "C" void __tsan_write_range(void* data, std::size_t size) {
    observe(data, size, true, false);
}
extern "C" void __tsan_vptr_update(void**, void*) {}
extern "C" void __tsan_vptr_read(void**) {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_init() {}
