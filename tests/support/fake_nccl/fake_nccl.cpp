#include "fake_nccl.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fake_streams.hpp"

namespace tutti::test {
namespace {

constexpr std::byte mark{0x5a};

}  // namespace

FakeNccl::Comm& FakeNccl::called(const std::string& name, NcclComm communicator) {
    calls_.push_back(name);
    const auto found =
        std::ranges::find_if(communicators_, [&](const auto& one) { return one.get() == communicator; });
    if (found == communicators_.end()) throw std::logic_error(name + " on no communicator");
    Comm& comm = **found;
    if (comm.polls > 0 && name != "abort")
        violations_.push_back(name + " while " + comm.in_progress + " is in progress");
    if (comm.finalized && name != "destroy" && name != "abort")
        violations_.push_back(name + " after finalize");
    return comm;
}

NcclResult FakeNccl::answer(const std::string& name, Comm& comm) {
    if (const auto scripted = script_.answers.find(name); scripted != script_.answers.end()) {
        if (scripted->second != NcclResult::in_progress) return scripted->second;
        comm.polls = 1 << 30;  // for ever
    } else {
        comm.polls = script_.polls;
    }
    comm.in_progress = name;
    return comm.polls > 0 ? NcclResult::in_progress : NcclResult::success;
}

NcclResult FakeNccl::unique_id(NcclUniqueId& id) {
    calls_.emplace_back("unique_id");
    id.fill(mark);
    const auto scripted = script_.answers.find("unique_id");
    return scripted == script_.answers.end() ? NcclResult::success : scripted->second;
}

NcclResult FakeNccl::init_rank(NcclComm& communicator, int ranks, const NcclUniqueId& id, int rank) {
    Comm& comm = *communicators_.emplace_back(std::make_unique<Comm>());
    communicator = &comm;
    called("init_rank", communicator);
    if (std::ranges::any_of(id, [](std::byte one) { return one != mark; }))
        violations_.emplace_back("init_rank without rank 0's id");
    if (ranks != data_.size() || rank != data_.rank()) violations_.emplace_back("init_rank as another rank");
    comm.data = data_.duplicate();
    return answer("init_rank", comm);
}

NcclResult FakeNccl::async_error(NcclComm communicator, NcclResult& state) {
    auto& comm = *static_cast<Comm*>(communicator);
    if (comm.polls > 0) {
        --comm.polls;
        state = NcclResult::in_progress;
    } else {
        state = comm.issued ? script_.async : NcclResult::success;
        if (comm.made_window) *std::exchange(comm.made_window, nullptr) = comm.window;
    }
    return NcclResult::success;
}

NcclResult FakeNccl::finalize(NcclComm communicator) {
    Comm& comm = called("finalize", communicator);
    if (!comm.windows.empty()) violations_.emplace_back("finalize with a window");
    const NcclResult result = answer("finalize", comm);
    comm.finalized = true;
    return result;
}

NcclResult FakeNccl::destroy(NcclComm communicator) {
    if (!called("destroy", communicator).finalized) violations_.emplace_back("destroy without finalize");
    std::erase_if(communicators_, [&](const auto& one) { return one.get() == communicator; });
    return NcclResult::success;
}

NcclResult FakeNccl::abort(NcclComm communicator) {
    if (script_.abort_waits) script_.abort_waits();
    const std::lock_guard lock(aborting_);
    // Its kernels end.
    *called("abort", communicator).aborted = true;
    std::erase_if(communicators_, [&](const auto& one) { return one.get() == communicator; });
    return NcclResult::success;
}

std::string FakeNccl::error_text(NcclResult result, NcclComm) {
    return "fake error " + std::to_string(static_cast<int>(result));
}

NcclResult FakeNccl::collective(const std::string& name, NcclComm communicator, GpuStream stream,
                                const std::function<Work(Communicator&)>& begin) {
    Comm& comm = called(name, communicator);
    comm.issued = true;
    static_cast<FakeStream*>(stream)->issue([begin, data = comm.data, work = std::make_shared<Work>(),
                                             began = false, stalls = script_.stalls,
                                             aborted = comm.aborted]() mutable {
        if (*aborted) return true;
        if (stalls) return false;
        if (!std::exchange(began, true)) *work = begin(*data);
        return work->test();
    });
    return answer(name, comm);
}

NcclResult FakeNccl::all_reduce(const TensorView& buffer, ReduceOp op, NcclComm communicator,
                                GpuStream stream) {
    if (buffer.dtype == DType::bf16 && data_.size() > 2)
        violations_.emplace_back("all_reduce of bf16, which NCCL rounds after each addition");
    return collective("all_reduce", communicator, stream,
                      [=](Communicator& data) { return data.all_reduce(buffer, op); });
}
NcclResult FakeNccl::reduce_scatter(const TensorView& input, const TensorView& output, ReduceOp op,
                                    NcclComm communicator, GpuStream stream) {
    return collective("reduce_scatter", communicator, stream,
                      [=](Communicator& data) { return data.reduce_scatter(input, output, op); });
}
NcclResult FakeNccl::all_gather(const TensorView& input, const TensorView& output, NcclComm communicator,
                                GpuStream stream) {
    return collective("all_gather", communicator, stream,
                      [=](Communicator& data) { return data.all_gather(input, output); });
}
NcclResult FakeNccl::broadcast(const TensorView& buffer, int root, NcclComm communicator, GpuStream stream) {
    return collective("broadcast", communicator, stream,
                      [=](Communicator& data) { return data.broadcast(buffer, root); });
}

NcclResult FakeNccl::all_to_all(const TensorView& input, const TensorView& output, int ranks,
                                NcclComm communicator, GpuStream stream) {
    const std::byte *const in = input.data, *const out = output.data;
    if (in < out + output.bytes() && out < in + input.bytes())
        violations_.emplace_back("all_to_all in place");
    // Everything to everybody, who keeps what is theirs.
    auto all = std::make_shared<std::vector<std::byte>>(input.bytes() * static_cast<std::size_t>(ranks));
    const TensorView everything{all->data(), input.dtype, {ranks * input.count()}};
    const NcclResult result = collective("all_to_all", communicator, stream, [=](Communicator& data) {
        return data.all_gather(input, everything);
    });
    const std::size_t block = input.bytes() / static_cast<std::size_t>(ranks);
    static_cast<FakeStream*>(stream)->issue([=, own = static_cast<std::size_t>(data_.rank())] {
        for (std::size_t from = 0; from < static_cast<std::size_t>(ranks); ++from)
            std::memcpy(output.data + from * block, all->data() + from * input.bytes() + own * block, block);
        return true;
    });
    return result;
}

NcclResult FakeNccl::exchange(const TensorView& send, const TensorView& receive, int peer,
                              NcclComm communicator, GpuStream stream) {
    return collective("exchange", communicator, stream,
                      [=](Communicator& data) { return data.exchange(send, receive, peer); });
}

FakeNccl::~FakeNccl() {
    // Where an abort hangs memory is left to the process's end; anywhere else that is a leak to be found.
    if (script_.abort_waits)
        for (const std::byte* const memory : memory_) delete[] memory;
}

NcclResult FakeNccl::allocate(std::byte*& memory, std::size_t bytes) {
    calls_.emplace_back("allocate");
    const auto scripted = script_.answers.find("allocate");
    if (scripted != script_.answers.end()) return scripted->second;
    memory = new std::byte[bytes];
    memory_.insert(memory);
    return NcclResult::success;
}

NcclResult FakeNccl::release(std::byte* memory) {
    calls_.emplace_back("release");
    if (memory_.erase(memory) == 0) return NcclResult::invalid_argument;
    for (const auto& one : communicators_)
        if (!one->windows.empty()) violations_.emplace_back("release of a window");
    delete[] memory;
    return NcclResult::success;
}

NcclResult FakeNccl::register_window(NcclComm communicator, std::byte* memory, std::size_t,
                                     NcclWindow& window) {
    Comm& comm = called("register_window", communicator);
    window = nullptr;
    if (!script_.windows) return NcclResult::success;
    if (!memory_.contains(memory)) return NcclResult::invalid_usage;
    comm.window = memory + ++next_window_;
    comm.windows.insert(comm.window);
    const NcclResult result = answer("register_window", comm);
    if (result == NcclResult::success)
        window = comm.window;
    else  // written when it is no longer in progress
        comm.made_window = &window;
    return result;
}

NcclResult FakeNccl::deregister_window(NcclComm communicator, NcclWindow window) {
    Comm& comm = called("deregister_window", communicator);
    comm.windows.erase(window);
    return answer("deregister_window", comm);
}

}  // namespace tutti::test
