// NCCL's calls through dlopen: a program that was built with NCCL starts without it.
#include <dlfcn.h>
#include <nccl.h>

#include <cstring>

#include "nccl_api.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

static_assert(static_cast<int>(NcclResult::unhandled_cuda_error) == ncclUnhandledCudaError);
static_assert(static_cast<int>(NcclResult::system_error) == ncclSystemError);
static_assert(static_cast<int>(NcclResult::internal_error) == ncclInternalError);
static_assert(static_cast<int>(NcclResult::invalid_argument) == ncclInvalidArgument);
static_assert(static_cast<int>(NcclResult::invalid_usage) == ncclInvalidUsage);
static_assert(static_cast<int>(NcclResult::remote_error) == ncclRemoteError);
static_assert(static_cast<int>(NcclResult::in_progress) == ncclInProgress);
static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId));

/// What non-blocking communicators and ncclCommFinalize need.
constexpr int oldest = NCCL_VERSION(2, 14, 3);

NcclResult result(ncclResult_t code) {
    return static_cast<NcclResult>(code);
}
ncclComm_t comm(NcclComm communicator) {
    return static_cast<ncclComm_t>(communicator);
}
cudaStream_t queue(GpuStream stream) {
    return static_cast<cudaStream_t>(stream);
}

ncclDataType_t type_of(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return ncclFloat32;
        case DType::f64:
            return ncclFloat64;
        case DType::i64:
            return ncclInt64;
        case DType::bf16:
            return ncclBfloat16;
        case DType::u8:
            break;
    }
    return ncclUint8;
}

ncclRedOp_t operation(ReduceOp op) {
    switch (op) {
        case ReduceOp::max:
            return ncclMax;
        case ReduceOp::min:
            return ncclMin;
        case ReduceOp::sum:
            break;
    }
    return ncclSum;
}

class NcclLibrary final : public NcclApi {
  public:
    NcclLibrary() : library_(dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL)) {
        if (!library_)
            throw RunError(
                std::string("NCCL could not be opened: ") + dlerror(),
                "install it or add its folder to LD_LIBRARY_PATH, or set distributed.backend: mpi");
        find(get_version_, "ncclGetVersion");
        int number = 0;
        get_version_(&number);
        version_ = std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
                   std::to_string(number % 100);
        if (number < oldest) throw RunError("NCCL " + version_ + " is too old", "install 2.14.3 or newer");
        find(get_unique_id_, "ncclGetUniqueId");
        find(init_rank_, "ncclCommInitRankConfig");
        find(get_async_error_, "ncclCommGetAsyncError");
        find(finalize_, "ncclCommFinalize");
        find(destroy_, "ncclCommDestroy");
        find(abort_, "ncclCommAbort");
        find(error_string_, "ncclGetErrorString");
        find(last_error_, "ncclGetLastError");
        find(all_reduce_, "ncclAllReduce");
        find(reduce_scatter_, "ncclReduceScatter");
        find(all_gather_, "ncclAllGather");
        find(broadcast_, "ncclBroadcast");
        find(send_, "ncclSend");
        find(receive_, "ncclRecv");
        find(group_start_, "ncclGroupStart");
        find(group_end_, "ncclGroupEnd");
        // Memory for windows came with 2.19, the windows with 2.27.
        look_for(mem_alloc_, "ncclMemAlloc");
        look_for(mem_free_, "ncclMemFree");
        look_for(window_register_, "ncclCommWindowRegister");
        look_for(window_deregister_, "ncclCommWindowDeregister");
    }

    std::string version() const override { return version_; }

    NcclResult unique_id(NcclUniqueId& id) override {
        ncclUniqueId own;
        const ncclResult_t code = get_unique_id_(&own);
        std::memcpy(id.data(), &own, sizeof own);
        return result(code);
    }
    NcclResult init_rank(NcclComm& communicator, int ranks, const NcclUniqueId& id, int rank) override {
        ncclUniqueId own;
        std::memcpy(&own, id.data(), sizeof own);
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        // Its own place, and not one on this stack: NCCL before 2.18 reads it in a thread that goes on behind
        // this call.
        static_assert(sizeof(ncclComm_t) == sizeof(NcclComm));
        return result(init_rank_(reinterpret_cast<ncclComm_t*>(&communicator), ranks, own, rank, &config));
    }
    NcclResult async_error(NcclComm communicator, NcclResult& state) override {
        ncclResult_t found = ncclSuccess;
        const ncclResult_t code = get_async_error_(comm(communicator), &found);
        state = result(found);
        return result(code);
    }
    NcclResult finalize(NcclComm communicator) override { return result(finalize_(comm(communicator))); }
    NcclResult destroy(NcclComm communicator) override { return result(destroy_(comm(communicator))); }
    NcclResult abort(NcclComm communicator) override { return result(abort_(comm(communicator))); }

    std::string error_text(NcclResult code, NcclComm communicator) override {
        const std::string name = error_string_(static_cast<ncclResult_t>(code));
        const char* const last = last_error_(comm(communicator));
        return last && *last ? name + " (" + last + ")" : name;
    }

    NcclResult all_reduce(const TensorView& buffer, ReduceOp op, NcclComm communicator,
                          GpuStream stream) override {
        return result(all_reduce_(buffer.data, buffer.data, count(buffer), type_of(buffer.dtype),
                                  operation(op), comm(communicator), queue(stream)));
    }
    NcclResult reduce_scatter(const TensorView& input, const TensorView& output, ReduceOp op,
                              NcclComm communicator, GpuStream stream) override {
        return result(reduce_scatter_(input.data, output.data, count(output), type_of(input.dtype),
                                      operation(op), comm(communicator), queue(stream)));
    }
    NcclResult all_gather(const TensorView& input, const TensorView& output, NcclComm communicator,
                          GpuStream stream) override {
        return result(all_gather_(input.data, output.data, count(input), type_of(input.dtype),
                                  comm(communicator), queue(stream)));
    }
    NcclResult broadcast(const TensorView& buffer, int root, NcclComm communicator,
                         GpuStream stream) override {
        return result(broadcast_(buffer.data, buffer.data, count(buffer), type_of(buffer.dtype), root,
                                 comm(communicator), queue(stream)));
    }
    NcclResult all_to_all(const TensorView& input, const TensorView& output, int ranks, NcclComm communicator,
                          GpuStream stream) override {
        return in_group([&](const auto& pair) {
            const std::int64_t elements = input.count() / ranks;
            const auto block = [&](const TensorView& all, int rank) {
                const std::size_t bytes = all.bytes() / static_cast<std::size_t>(ranks);
                return TensorView{all.data + bytes * static_cast<std::size_t>(rank), all.dtype, {elements}};
            };
            for (int rank = 0; rank < ranks; ++rank)
                if (!pair(block(input, rank), block(output, rank), rank, communicator, stream)) return;
        });
    }
    NcclResult exchange(const TensorView& send, const TensorView& receive, int peer, NcclComm communicator,
                        GpuStream stream) override {
        return in_group([&](const auto& pair) { pair(send, receive, peer, communicator, stream); });
    }

    NcclResult allocate(std::byte*& memory, std::size_t bytes) override {
        void* pointer = nullptr;
        const ncclResult_t code = mem_alloc_ ? mem_alloc_(&pointer, bytes) : ncclInvalidUsage;
        memory = static_cast<std::byte*>(pointer);
        return result(code);
    }
    NcclResult release(std::byte* memory) override {
        return result(mem_free_ ? mem_free_(memory) : ncclInvalidUsage);
    }
    NcclResult register_window(NcclComm communicator, std::byte* memory, std::size_t bytes,
                               NcclWindow& window) override {
        window = nullptr;
        if (!window_register_ || !window_deregister_) return NcclResult::success;
        // NCCL writes it when the call is no longer in progress.
        static_assert(sizeof(ncclWindow_t) == sizeof(NcclWindow));
        const ncclResult_t code =
            window_register_(comm(communicator), memory, bytes, reinterpret_cast<ncclWindow_t*>(&window),
                             NCCL_WIN_COLL_SYMMETRIC);
        if (code != ncclSuccess) return result(code);
        // Of a non-blocking communicator the call says success while it is in progress, unlike all others
        // (NCCL 2.28, src/dev_runtime.cc): the communicator knows.
        NcclResult state = NcclResult::success;
        const NcclResult asked = async_error(communicator, state);
        return asked == NcclResult::success ? state : asked;
    }
    NcclResult deregister_window(NcclComm communicator, NcclWindow window) override {
        return result(window_deregister_(comm(communicator), static_cast<ncclWindow_t>(window)));
    }

  private:
    static std::size_t count(const TensorView& view) { return static_cast<std::size_t>(view.count()); }

    /// `issue` gets what sends to a rank and receives from it, and says whether the group may go on.
    template <class Issue>
    NcclResult in_group(const Issue& issue) {
        if (const ncclResult_t code = group_start_(); code != ncclSuccess) return result(code);
        ncclResult_t failed = ncclSuccess;
        const auto keep_first = [&](ncclResult_t code) {
            if (failed == ncclSuccess && code != ncclInProgress) failed = code;
        };
        issue([&](const TensorView& sent, const TensorView& received, int rank, NcclComm communicator,
                  GpuStream stream) {
            keep_first(
                send_(sent.data, count(sent), type_of(sent.dtype), rank, comm(communicator), queue(stream)));
            keep_first(receive_(received.data, count(received), type_of(received.dtype), rank,
                                comm(communicator), queue(stream)));
            return failed == ncclSuccess;
        });
        // Also behind a failure: whatever comes next would otherwise wait for the end of the group.
        const ncclResult_t ended = group_end_();
        return result(failed == ncclSuccess ? ended : failed);
    }

    template <class Function>
    bool look_for(Function& function, const char* name) {
        function = reinterpret_cast<Function>(dlsym(library_, name));
        return function != nullptr;
    }
    template <class Function>
    void find(Function& function, const char* name) {
        if (!look_for(function, name))
            throw RunError(std::string("libnccl.so.2 has no ") + name, "install NCCL 2.14.3 or newer");
    }

    void* library_;  // stays open: NCCL has threads of its own
    std::string version_;
    decltype(&ncclGetVersion) get_version_ = nullptr;
    decltype(&ncclGetUniqueId) get_unique_id_ = nullptr;
    decltype(&ncclCommInitRankConfig) init_rank_ = nullptr;
    decltype(&ncclCommGetAsyncError) get_async_error_ = nullptr;
    decltype(&ncclCommFinalize) finalize_ = nullptr;
    decltype(&ncclCommDestroy) destroy_ = nullptr;
    decltype(&ncclCommAbort) abort_ = nullptr;
    decltype(&ncclGetErrorString) error_string_ = nullptr;
    decltype(&ncclGetLastError) last_error_ = nullptr;
    decltype(&ncclAllReduce) all_reduce_ = nullptr;
    decltype(&ncclReduceScatter) reduce_scatter_ = nullptr;
    decltype(&ncclAllGather) all_gather_ = nullptr;
    decltype(&ncclBroadcast) broadcast_ = nullptr;
    decltype(&ncclSend) send_ = nullptr;
    decltype(&ncclRecv) receive_ = nullptr;
    decltype(&ncclGroupStart) group_start_ = nullptr;
    decltype(&ncclGroupEnd) group_end_ = nullptr;
    decltype(&ncclMemAlloc) mem_alloc_ = nullptr;
    decltype(&ncclMemFree) mem_free_ = nullptr;
    decltype(&ncclCommWindowRegister) window_register_ = nullptr;
    decltype(&ncclCommWindowDeregister) window_deregister_ = nullptr;
};

}  // namespace

std::unique_ptr<NcclApi> open_nccl() {
    return std::make_unique<NcclLibrary>();
}

}  // namespace tutti
