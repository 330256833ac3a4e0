#include "nccl_communicator.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

#include "checks.hpp"
#include "nccl_bf16_sums.hpp"
#include "nccl_job.hpp"
#include "nccl_memory.hpp"
#include "waited_time.hpp"

namespace tutti {
namespace {

class NcclTransfer final : public Work::Transfer {
  public:
    NcclTransfer(std::shared_ptr<NcclJob> job, std::string call)
        : NcclTransfer(job, std::move(call), job->stream().mark()) {}
    NcclTransfer(std::shared_ptr<NcclJob> job, std::string call, std::unique_ptr<GpuMark> mark)
        : job_(std::move(job)),
          call_(std::move(call)),
          mark_(std::move(mark)),
          waited_(job_->begin_to_wait()) {}

    bool test() override {
        // Nothing is under way; and where it joins the computing stream, wait() says.
        if (job_->stream().recording()) return false;
        // First: kernels of a communicator that was aborted end, too.
        job_->require_whole();
        if (mark_->reached()) {
            // Done on the device, but the computing stream knows nothing of it.
            job_->stream().compute_follows(*mark_);
            return true;
        }
        job_->check(call_, waited_);
        return false;
    }
    void wait() override {
        if (job_->stream().recording()) return job_->stream().compute_follows(*mark_);
        // Its owner is left by an error, maybe of a peer that this transfer would wait for.
        if (std::uncaught_exceptions() > 0) job_->leave_behind();
        while (!test()) sched_yield();
    }

  private:
    std::shared_ptr<NcclJob> job_;
    std::string call_;
    std::unique_ptr<GpuMark> mark_;
    WaitedTime waited_;
};

std::unique_ptr<Communicator> open_nccl_communicator(std::shared_ptr<NcclApi> api,
                                                     std::shared_ptr<GpuSideStream> stream,
                                                     std::shared_ptr<Communicator> bootstrap,
                                                     const NcclSettings& settings,
                                                     std::shared_ptr<NcclFamily> family);

class NcclCommunicator final : public Communicator {
  public:
    explicit NcclCommunicator(std::shared_ptr<NcclJob> job) : job_(std::move(job)) {
        // A rank alone sends nothing, and so rounds nothing.
        if (job_->settings().transit && size() > 1)
            bf16_sums_ = std::make_unique<NcclBf16Sums>(job_, job_->settings().transit);
    }

    int rank() const override { return job_->rank(); }
    int size() const override { return job_->size(); }
    std::string backend() const override { return "nccl"; }
    std::string all_reduce_path() const override {
        return "NCCL " + job_->api().version() + (bf16_sums_ ? ", in bf16" : "");
    }
    bool sums_in_fixed_order() const override { return bf16_sums_ || size() <= 2; }

    Work all_reduce(const TensorView& buffer, ReduceOp op) override {
        require_exact_additions("all_reduce", buffer);
        if (bf16_sums_ && buffer.dtype == DType::f32 && op == ReduceOp::sum) return start_as_bf16(buffer);
        return start("all_reduce", buffer, [&](NcclComm communicator, GpuStream stream) {
            return job_->api().all_reduce(buffer, op, communicator, stream);
        });
    }
    Work reduce_scatter(const TensorView& input, const TensorView& output, ReduceOp op) override {
        require_exact_additions("reduce_scatter", input);
        require_blocks("reduce_scatter", input, output, size());
        return start("reduce_scatter", input, [&](NcclComm communicator, GpuStream stream) {
            return job_->api().reduce_scatter(input, output, op, communicator, stream);
        });
    }
    Work all_gather(const TensorView& input, const TensorView& output) override {
        require_blocks("all_gather", output, input, size());
        return start("all_gather", input, [&](NcclComm communicator, GpuStream stream) {
            return job_->api().all_gather(input, output, communicator, stream);
        });
    }
    Work broadcast(const TensorView& buffer, int root) override {
        require_root("broadcast", root, size());
        return start("broadcast", buffer, [&](NcclComm communicator, GpuStream stream) {
            return job_->api().broadcast(buffer, root, communicator, stream);
        });
    }
    Work exchange(const TensorView& send, const TensorView& receive, int peer) override {
        require_pair(send, receive, peer, rank(), size());
        return start("exchange", send, [&](NcclComm communicator, GpuStream stream) {
            return job_->api().exchange(send, receive, peer, communicator, stream);
        });
    }

    /// NCCL has none: the hosts meet.
    void barrier() override {
        job_->require_whole();
        job_->bootstrap().barrier();
    }

    std::string why_not_recordable() const override { return {}; }
    Work follow_recorded() override {
        job_->require_whole();
        return Work(std::make_unique<NcclTransfer>(job_, "a recorded step", job_->stream().mark_compute()));
    }

    bool given_up() const override { return job_->broken(); }
    void will_end_with(ExitCode code, const std::string& message) override {
        job_->will_end_with({code, message});
    }

    void before_abort(const std::shared_ptr<std::function<void()>>& release) override {
        job_->family()->before_abort.push_back(release);
    }

    std::unique_ptr<Communicator> duplicate() override {
        job_->require_whole();
        return open_nccl_communicator(job_->shared_api(), job_->stream().duplicate(),
                                      job_->bootstrap().duplicate(), job_->settings(), job_->family());
    }

    [[noreturn]] void abort(ExitCode code) noexcept override {
        try {
            job_->give_up("aborted");
        } catch (...) {
        }
        job_->bootstrap().abort(code);
        std::_Exit(static_cast<int>(code));
    }

    Buffer allocate(std::size_t bytes) override {
        job_->require_whole();
        if (size() == 1 || bytes == 0) return {};
        if (!bf16_sums_) return window(bytes);
        // Of the gradients themselves nothing is sent.
        const auto count = static_cast<std::int64_t>(bytes / sizeof(float));
        if (bf16_sums_->takes(count)) return {};
        const std::size_t needed = std::max(bf16_sums_->needs(count), bf16_sums_->needs(1));
        if (Buffer memory = window(needed); memory.size() > 0)
            bf16_sums_->use(std::move(memory));
        else
            bf16_sums_->reserve(count);
        return {};
    }

  private:
    Buffer window(std::size_t bytes) {
        auto memory = std::make_shared<NcclMemory>(job_, bytes);
        const auto nothing = [&](const std::string& why) {
            if (rank() == 0 && job_->settings().notice)
                job_->settings().notice("gradients lie in ordinary device memory: NCCL " +
                                        job_->api().version() + ' ' + why);
            return Buffer{};
        };
        // All or none: a window is one of all ranks.
        if (any(memory->data() == nullptr)) return nothing("gave no memory for windows (ncclMemAlloc)");
        bool made = false;
        std::exception_ptr failure;
        try {
            made = memory->make_window();
        } catch (const Error&) {
            failure = std::current_exception();
        }
        // Also when this rank has failed: the others ask.
        const bool nowhere = any(!made);
        if (failure) std::rethrow_exception(failure);
        if (nowhere) return nothing("made no window of it on these GPUs");
        std::byte* const data = memory->data();
        return {data, bytes, std::move(memory)};
    }

    bool any(bool mine) {
        std::int64_t value = mine ? 1 : 0;
        job_->bootstrap().all_reduce(view_of(std::span(&value, 1)), ReduceOp::max).wait();
        return value != 0;
    }

    template <class Issue>
    Work start(const char* call, const TensorView& buffer, const Issue& issue) {
        job_->require_whole();
        if (buffer.count() == 0) return {};
        const std::string description = describe(call, buffer.count(), buffer.dtype);
        job_->stream().follow_compute();
        job_->settle(description, issue(job_->communicator(), job_->stream().handle()));
        return Work(std::make_unique<NcclTransfer>(job_, description));
    }

    Work start_as_bf16(const TensorView& floats) {
        job_->require_whole();
        if (floats.count() == 0) return {};
        const std::string description = describe("all_reduce", floats.count(), DType::bf16);
        bf16_sums_->all_reduce(floats, description);
        return Work(std::make_unique<NcclTransfer>(job_, description));
    }

    std::shared_ptr<NcclJob> job_;
    std::unique_ptr<NcclBf16Sums> bf16_sums_;  ///< null: sums travel as they are
};

std::unique_ptr<Communicator> open_nccl_communicator(std::shared_ptr<NcclApi> api,
                                                     std::shared_ptr<GpuSideStream> stream,
                                                     std::shared_ptr<Communicator> bootstrap,
                                                     const NcclSettings& settings,
                                                     std::shared_ptr<NcclFamily> family) {
    NcclUniqueId id{};
    together_on_first_rank(*bootstrap, "starting NCCL", [&] {
        const NcclResult result = api->unique_id(id);
        if (result != NcclResult::success)
            throw_nccl_error("ncclGetUniqueId on rank 0 (" + settings.host + ")", result,
                             api->error_text(result, nullptr));
    });
    bootstrap->broadcast({id.data(), DType::u8, {static_cast<std::int64_t>(id.size())}}, 0).wait();
    auto job =
        std::make_shared<NcclJob>(std::move(api), std::move(stream), bootstrap, settings, std::move(family));
    together(*bootstrap, "starting NCCL", [&] { job->open(id); });
    return std::make_unique<NcclCommunicator>(std::move(job));
}

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(std::shared_ptr<NcclApi> api,
                                                     std::shared_ptr<GpuSideStream> stream,
                                                     std::shared_ptr<Communicator> bootstrap,
                                                     const NcclSettings& settings) {
    return open_nccl_communicator(std::move(api), std::move(stream), std::move(bootstrap), settings,
                                  std::make_shared<NcclFamily>());
}

}  // namespace tutti
