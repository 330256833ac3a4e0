// A libnccl.so.2 for ranks that compute on the fake module: its calls, as the real header declares them,
// through shared memory between processes. A collective is done when it is issued, so ranks that issue in
// different orders stop here; every call is in progress, as those of non-blocking communicators may be, and
// says so but where the real one does not.

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <nccl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tutti/base/bf16.hpp"

namespace {

/// Small, so that models of tests need several. TUTTI_FAKE_NCCL_SLOT: bytes, for sums of many.
const std::size_t slot_bytes = [] {
    const char* const wish = std::getenv("TUTTI_FAKE_NCCL_SLOT");
    return wish ? std::strtoul(wish, nullptr, 10) : std::size_t{1} << 16;
}();

struct Meeting {
    std::atomic<long> arrivals;
};

/// The runtime that the module has: device memory can be touched only as it does it. Null where there is
/// none.
template <class Function>
Function of_module(const char* name) {
    static void* const library = [] {
        const auto module =
            std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libtutti_cuda.so";
        return dlopen(module.c_str(), RTLD_NOW | RTLD_NOLOAD);
    }();
    return reinterpret_cast<Function>(library ? dlsym(library, name) : nullptr);
}
decltype(&cudaMemcpyAsync) module_copy() {
    static const auto copy = of_module<decltype(&cudaMemcpyAsync)>("cudaMemcpyAsync");
    return copy;
}
bool is_captured(cudaStream_t stream) {
    static const auto ask = of_module<decltype(&cudaStreamIsCapturing)>("cudaStreamIsCapturing");
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    ask(stream, &status);
    return status != cudaStreamCaptureStatusNone;
}

std::size_t size_of(ncclDataType_t type) {
    switch (type) {
        case ncclFloat32:
            return 4;
        case ncclFloat64:
        case ncclInt64:
            return 8;
        case ncclBfloat16:
            return 2;
        case ncclUint8:
            return 1;
        default:
            return 0;
    }
}

template <class T>
void combine(T* sum, const T* other, std::size_t count, ncclRedOp_t op) {
    for (std::size_t i = 0; i < count; ++i)
        sum[i] = op == ncclSum   ? static_cast<T>(sum[i] + other[i])
                 : op == ncclMax ? std::max(sum[i], other[i])
                                 : std::min(sum[i], other[i]);
}

/// bf16 as NCCL adds it: rounded after each addition.
struct Half {
    std::uint16_t bits;
    operator float() const { return tutti::float_of_bf16(bits); }
    Half operator+(Half other) const {
        return {tutti::bf16_bits(static_cast<float>(*this) + static_cast<float>(other))};
    }
};

/// Sends and receives of the group that is open; of one communicator.
struct Group {
    struct Part {
        const std::byte* sent;
        std::byte* received;
        std::size_t bytes;
        int peer;
    };
    int depth = 0;
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
    std::vector<Part> parts;
};
Group& group() {
    static Group one;
    return one;
}

}  // namespace

struct ncclComm {
    int rank, ranks;
    std::byte* memory;
    std::size_t bytes;
    long meetings = 0;
    long collectives = 0;
    bool in_progress = true;
    bool waits_in_vain = false;
    const std::byte* window = nullptr;
    std::size_t window_bytes = 0;
    ncclWindow_t* made_window = nullptr;  // where it is written once the call has ended
    long within = 0, elsewhere = 0;       // bytes of all-reduces and reduce-scatters, in the window and not

    void count(const std::byte* data, std::size_t size) {
        (window && data >= window && data + size <= window + window_bytes ? within : elsewhere) +=
            static_cast<long>(size);
    }
    std::byte* slot(int of) const { return memory + 4096 + slot_bytes * static_cast<std::size_t>(of); }
    void meet() {
        auto& arrivals = reinterpret_cast<Meeting*>(memory)->arrivals;
        ++arrivals;
        const long all = ++meetings * ranks;
        while (arrivals < all) sched_yield();
    }
    void put(const std::byte* device, std::size_t size, cudaStream_t stream) {
        put(slot(rank), device, size, stream);
    }
    void put(std::byte* to, const std::byte* device, std::size_t size, cudaStream_t stream) {
        static const auto wait = of_module<decltype(&cudaStreamSynchronize)>("cudaStreamSynchronize");
        module_copy()(to, device, size, cudaMemcpyDeviceToHost, stream);
        wait(stream);
    }
    /// As late as the stream is: from a copy, for the slot is soon filled again.
    void take(std::byte* device, const void* from, std::size_t size, cudaStream_t stream) {
        static const auto then = of_module<decltype(&cudaLaunchHostFunc)>("cudaLaunchHostFunc");
        using Copy = std::vector<std::byte>;
        const auto* const source = static_cast<const std::byte*>(from);
        auto copy = std::make_unique<Copy>(source, source + size);
        module_copy()(device, copy->data(), size, cudaMemcpyHostToDevice, stream);
        then(
            stream, [](void* read) { delete static_cast<Copy*>(read); }, copy.release());
    }
    /// All ranks' slots into one, in the order of ranks.
    std::vector<std::byte> combined(std::size_t size, ncclDataType_t type, ncclRedOp_t op) const {
        std::vector<std::byte> sum(slot(0), slot(0) + size);
        const std::size_t count = size / size_of(type);
        for (int other = 1; other < ranks; ++other) {
            if (type == ncclFloat32)
                combine(reinterpret_cast<float*>(sum.data()), reinterpret_cast<float*>(slot(other)), count,
                        op);
            else if (type == ncclFloat64)
                combine(reinterpret_cast<double*>(sum.data()), reinterpret_cast<double*>(slot(other)), count,
                        op);
            else if (type == ncclBfloat16)
                combine(reinterpret_cast<Half*>(sum.data()), reinterpret_cast<Half*>(slot(other)), count, op);
            else if (type == ncclInt64)
                combine(reinterpret_cast<long*>(sum.data()), reinterpret_cast<long*>(slot(other)), count, op);
        }
        return sum;
    }
    ncclResult_t issued() {
        in_progress = true;
        return ncclInProgress;
    }

    /// TUTTI_FAKE_NCCL_DIES=RANK:N: this rank is killed at its N-th collective, for which the others then
    /// wait in vain.
    bool waits_for_a_dead_rank() {
        static const auto [dead, number] = [] {
            std::pair wish{-1, 0L};
            if (const char* const text = std::getenv("TUTTI_FAKE_NCCL_DIES"))
                std::sscanf(text, "%d:%ld", &wish.first, &wish.second);
            return wish;
        }();
        if (dead < 0 || ++collectives < number) return false;
        if (rank == dead) std::raise(SIGKILL);
        return waits_in_vain = in_progress = true;
    }

    /// Does `work`, or makes it part of the graph that the stream is captured into.
    ncclResult_t issue(cudaStream_t stream, std::function<void()> work) {
        if (waits_for_a_dead_rank()) return ncclInProgress;
        if (is_captured(stream)) {
            static const auto record = of_module<decltype(&cudaLaunchHostFunc)>("cudaLaunchHostFunc");
            captured.push_back(std::make_unique<std::function<void()>>(std::move(work)));
            const auto call = [](void* function) { (*static_cast<std::function<void()>*>(function))(); };
            if (record(stream, call, captured.back().get()) != cudaSuccess) return ncclUnhandledCudaError;
        } else {
            work();
        }
        return issued();
    }
    std::vector<std::unique_ptr<std::function<void()>>> captured = {};
};

namespace {

/// `part(offset, bytes)` for what fits into a slot at a time.
template <class Part>
void in_parts(std::size_t bytes, const Part& part) {
    for (std::size_t offset = 0; offset < bytes; offset += slot_bytes)
        part(offset, std::min(slot_bytes, bytes - offset));
}

const std::byte* bytes_of(const void* data) {
    return static_cast<const std::byte*>(data);
}
std::byte* bytes_of(void* data) {
    return static_cast<std::byte*>(data);
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) {
    return "an error of the fake NCCL";
}
const char* ncclGetLastError(ncclComm_t) {
    return "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    static int made = 0;
    std::memset(id, 0, sizeof *id);
    std::snprintf(id->internal, sizeof id->internal, "/tutti-fake-nccl-%d-%d", static_cast<int>(getpid()),
                  made++);
    return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
    if (!module_copy()) return ncclUnhandledCudaError;
    const std::size_t bytes = 4096 + slot_bytes * static_cast<std::size_t>(ranks);
    const int file = shm_open(id.internal, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return ncclSystemError;
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) return ncclSystemError;
    *made = new ncclComm{rank, ranks, static_cast<std::byte*>(memory), bytes};
    (*made)->meet();
    if (rank == 0) shm_unlink(id.internal);
    return (*made)->issued();
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
    *state = comm->in_progress ? ncclInProgress : ncclSuccess;
    if (!comm->in_progress && comm->made_window)
        *std::exchange(comm->made_window, nullptr) =
            reinterpret_cast<ncclWindow_t>(const_cast<std::byte*>(comm->window));
    comm->in_progress = comm->waits_in_vain;
    return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    comm->meet();
    return comm->issued();
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    if (const char* const path = std::getenv("TUTTI_FAKE_NCCL_LOG")) {
        if (std::FILE* const log = std::fopen(path, "a")) {
            std::fprintf(log, "%d %zu %ld %ld\n", comm->rank, comm->window_bytes, comm->within,
                         comm->elsewhere);
            std::fclose(log);
        }
    }
    munmap(comm->memory, comm->bytes);
    delete comm;
    return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    // As one that waits for a kernel which waits for a lost peer.
    while (std::getenv("TUTTI_FAKE_STUCK_ABORT")) pause();
    return ncclCommDestroy(comm);
}

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
    const auto allocate = of_module<cudaError_t (*)(void**, std::size_t)>("cudaMalloc");
    return allocate && allocate(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclMemFree(void* memory) {
    return of_module<cudaError_t (*)(void*)>("cudaFree")(memory) == cudaSuccess ? ncclSuccess
                                                                                : ncclUnhandledCudaError;
}
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, std::size_t bytes, ncclWindow_t* window,
                                    int flags) {
    if (comm->in_progress || !(flags & NCCL_WIN_COLL_SYMMETRIC)) return ncclInvalidUsage;
    comm->meet();
    *window = nullptr;
    if (std::getenv("TUTTI_FAKE_NO_WINDOWS")) {
        comm->issued();
        return ncclSuccess;
    }
    comm->window = bytes_of(memory);
    comm->window_bytes = bytes;
    comm->made_window = window;
    // As the real one does, which is in progress nevertheless.
    comm->issued();
    return ncclSuccess;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
    if (comm->in_progress || reinterpret_cast<const std::byte*>(window) != comm->window)
        return ncclInvalidUsage;
    comm->window = nullptr;
    return comm->issued();
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    if (comm->in_progress || size_of(type) == 0) return ncclInvalidUsage;
    comm->count(bytes_of(send), count * size_of(type));
    return comm->issue(stream, [=] {
        in_parts(count * size_of(type), [&](std::size_t offset, std::size_t size) {
            comm->put(bytes_of(send) + offset, size, stream);
            comm->meet();
            comm->take(bytes_of(receive) + offset, comm->combined(size, type, op).data(), size, stream);
            comm->meet();
        });
    });
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    if (comm->in_progress || size_of(type) == 0) return ncclInvalidUsage;
    const std::size_t block = count * size_of(type);
    comm->count(bytes_of(send), block * static_cast<std::size_t>(comm->ranks));
    return comm->issue(stream, [=] {
        for (int owner = 0; owner < comm->ranks; ++owner)
            in_parts(block, [&](std::size_t offset, std::size_t size) {
                comm->put(bytes_of(send) + block * static_cast<std::size_t>(owner) + offset, size, stream);
                comm->meet();
                if (owner == comm->rank)
                    comm->take(bytes_of(receive) + offset, comm->combined(size, type, op).data(), size,
                               stream);
                comm->meet();
            });
    });
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
    if (comm->in_progress || size_of(type) == 0) return ncclInvalidUsage;
    const std::size_t block = count * size_of(type);
    return comm->issue(stream, [=] {
        in_parts(block, [&](std::size_t offset, std::size_t size) {
            comm->put(bytes_of(send) + offset, size, stream);
            comm->meet();
            for (int other = 0; other < comm->ranks; ++other)
                comm->take(bytes_of(receive) + block * static_cast<std::size_t>(other) + offset,
                           comm->slot(other), size, stream);
            comm->meet();
        });
    });
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
    if (comm->in_progress || size_of(type) == 0) return ncclInvalidUsage;
    return comm->issue(stream, [=] {
        in_parts(count * size_of(type), [&](std::size_t offset, std::size_t size) {
            if (comm->rank == root) comm->put(bytes_of(send) + offset, size, stream);
            comm->meet();
            comm->take(bytes_of(receive) + offset, comm->slot(root), size, stream);
            comm->meet();
        });
    });
}

ncclResult_t ncclGroupStart() {
    ++group().depth;
    return ncclSuccess;
}
ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    // Alone it would wait for the peer's ncclRecv, which would wait for this rank's.
    if (group().depth == 0 || comm->in_progress || peer >= comm->ranks) return ncclInvalidUsage;
    group().comm = comm;
    group().stream = stream;
    group().parts.push_back({bytes_of(data), nullptr, count * size_of(type), peer});
    return ncclSuccess;
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t) {
    if (group().depth == 0 || comm->in_progress || peer >= comm->ranks) return ncclInvalidUsage;
    group().parts.push_back({nullptr, bytes_of(data), count * size_of(type), peer});
    return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
    if (group().depth == 0) return ncclInvalidUsage;
    if (--group().depth > 0) return ncclSuccess;
    const Group ended = std::exchange(group(), {});
    if (ended.parts.empty()) return ncclSuccess;
    const ncclComm_t comm = ended.comm;
    // As here, all ranks send to all, or each to the peer that sends to it, in blocks of one size, of which a
    // slot takes a part of each.
    const std::size_t block = ended.parts.front().bytes,
                      most = slot_bytes / static_cast<std::size_t>(comm->ranks) / 8 * 8;
    for (const Group::Part& part : ended.parts)
        if (part.bytes != block) return ncclInvalidArgument;
    const std::size_t of_all = 2 * static_cast<std::size_t>(comm->ranks);
    if (ended.parts.size() != of_all && ended.parts.size() != 2) return ncclInvalidArgument;
    return comm->issue(ended.stream, [=] {
        for (std::size_t offset = 0; offset < block; offset += most) {
            const std::size_t size = std::min(most, block - offset);
            const auto place = [&](int of, int towards) {
                return comm->slot(of) + most * static_cast<std::size_t>(towards);
            };
            for (const Group::Part& part : ended.parts)
                if (part.sent)
                    comm->put(place(comm->rank, part.peer), part.sent + offset, size, ended.stream);
            comm->meet();
            for (const Group::Part& part : ended.parts)
                if (part.received)
                    comm->take(part.received + offset, place(part.peer, comm->rank), size, ended.stream);
            comm->meet();
        }
    });
}

}  // extern "C"
