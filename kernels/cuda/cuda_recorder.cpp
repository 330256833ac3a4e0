#include "cuda_recorder.hpp"

#include <cstring>
#include <utility>

#include "gpu_error.hpp"

namespace tutti::cuda {
namespace {

/// RunValues as they lie in memory: epoch, scale, positions.
class ValuesMemory {
  public:
    explicit ValuesMemory(std::size_t positions)
        : positions_(positions), device_(bytes(positions), "the values of a step") {}

    std::size_t capacity() const { return positions_; }
    /// False once the values of larger batches go elsewhere.
    bool written() const { return written_; }
    void retire() { written_ = false; }
    void upload(const RunValues& values, Stream stream) {
        std::byte* const host = host_.reserve(bytes(positions_));
        std::memcpy(host, &values.epoch, 8);
        std::memcpy(host + 8, &values.loss_scale, 8);
        if (!values.positions.empty())
            std::memcpy(host + 16, values.positions.data(), values.positions.size_bytes());
        host_.send(device_.data(), bytes(values.positions.size()), stream);
    }
    RecordedValues views(const RunValues& given) const {
        std::byte* const data = device_.data();
        const auto count = static_cast<std::int64_t>(given.positions.size());
        return {
            given, {{data, DType::i64, {1}}, {data + 16, DType::i64, {count}}}, {data + 8, DType::f64, {1}}};
    }

  private:
    static std::size_t bytes(std::size_t positions) { return 16 + 8 * positions; }
    std::size_t positions_;
    bool written_ = true;
    DeviceMemory device_;
    UploadSlot host_;
};

class CudaGraph final : public RecordedWork {
  public:
    /// Takes over `graph`.
    CudaGraph(std::shared_ptr<CudaContext> context, std::shared_ptr<ValuesMemory> values, cudaGraph_t graph)
        : context_(std::move(context)), values_(std::move(values)), replaced_(context_->memory_replaced()) {
        const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
        cudaGraphDestroy(graph);
        check(status, "cudaGraphInstantiate");
    }
    ~CudaGraph() override {
        if (executable_) cudaGraphExecDestroy(executable_);
    }

    bool current() const override { return replaced_ == context_->memory_replaced() && values_->written(); }
    void run() override {
        assert(current());
        check(cudaGraphLaunch(executable_, context_->stream()), "cudaGraphLaunch");
    }

  private:
    std::shared_ptr<CudaContext> context_;
    std::shared_ptr<ValuesMemory> values_;
    std::uint64_t replaced_;
    cudaGraphExec_t executable_ = nullptr;
};

class CudaRecorder final : public WorkRecorder {
  public:
    explicit CudaRecorder(std::shared_ptr<CudaContext> context)
        : context_(std::move(context)), fetched_memory_(most_fetched, "the results of a step") {}
    // An error may have come before the copy that is under way, whose memory this is.
    ~CudaRecorder() override {
        try {
            arrived_.synchronize();
        } catch (const RunError&) {
            // What the GPU died of is told by whoever waits for its results.
        }
    }
    CudaRecorder(const CudaRecorder&) = delete;
    CudaRecorder& operator=(const CudaRecorder&) = delete;

    void set(const RunValues& values) override {
        if (memory_ && memory_->capacity() < values.positions.size())
            std::exchange(memory_, nullptr)->retire();
        if (!memory_) memory_ = std::make_shared<ValuesMemory>(values.positions.size());
        memory_->upload(values, context_->stream());
        values_ = memory_->views(values);
    }

    std::unique_ptr<RecordedWork> record(const std::function<void()>& issue) override {
        const Stream stream = context_->stream();
        // Calls of other threads are none of this capture's business.
        check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
        context_->record_with(&values_);
        cudaGraph_t graph = nullptr;
        try {
            issue();
        } catch (...) {
            context_->record_with(nullptr);
            cudaStreamEndCapture(stream, &graph);  // fails where the capture was broken; the stream is free
            if (graph) cudaGraphDestroy(graph);
            cudaGetLastError();  // told once; whoever asks next means another call
            throw;
        }
        context_->record_with(nullptr);
        check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
        return std::make_unique<CudaGraph>(context_, memory_, graph);
    }

    void fetch(const TensorView& values) override {
        assert(values.bytes() <= most_fetched);
        check(cudaMemcpyAsync(fetched_memory_.data(), values.data, values.bytes(), cudaMemcpyDeviceToHost,
                              context_->stream()),
              "cudaMemcpyAsync of the results of a step");
        arrived_.record(context_->stream());
    }
    bool fetched() override { return arrived_.reached(); }
    const std::byte* result() const override { return fetched_memory_.data(); }

  private:
    std::shared_ptr<CudaContext> context_;
    std::shared_ptr<ValuesMemory> memory_;
    RecordedValues values_;
    PinnedMemory fetched_memory_;
    Event arrived_;
};

}  // namespace

std::unique_ptr<WorkRecorder> make_recorder(std::shared_ptr<CudaContext> context) {
    return std::make_unique<CudaRecorder>(std::move(context));
}

}  // namespace tutti::cuda
