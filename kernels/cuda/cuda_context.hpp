#pragma once
// What the operators of one device share: the stream in which everything is ordered, scratch memory, and the
// libraries' handles.

#include <array>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "device_memory.hpp"
#include "engine_trials.hpp"
#include "small_uploads.hpp"
#include "streams.hpp"
#include "tutti/device/recorder.hpp"
#include "tutti/device/tensor_view.hpp"

struct cublasLtContext;
struct cudnnContext;

namespace tutti::cuda {

/// Of a tensor in scratch memory.
struct Wanted {
    DType dtype;
    Shape shape;
};

/// Where random numbers are drawn: i64[1] and i64[N] in device memory.
struct RandomPlaces {
    TensorView epoch, positions;
};

/// RunValues in device memory, and what they were when recording began: an operator that is given other
/// values cannot be recorded.
struct RecordedValues {
    RunValues given;
    RandomPlaces places;
    TensorView loss_scale;
};

class CudaContext {
  public:
    /// On the current GPU. Throws GpuError.
    CudaContext();
    ~CudaContext();
    CudaContext(const CudaContext&) = delete;
    CudaContext& operator=(const CudaContext&) = delete;

    const OwnedStream& compute() const { return compute_; }
    Stream stream() const { return compute_.get(); }

    /// What a block may have of it, bytes.
    std::size_t shared_memory() const { return shared_memory_; }

    /// Scratch for one operator; each call ends the life of what the last one gave.
    TensorView scratch(DType dtype, const Shape& shape) { return scratch_.tensor(dtype, shape); }
    template <std::size_t N>
    std::array<TensorView, N> scratch(const Wanted (&wanted)[N]) {
        std::array<TensorView, N> tensors;
        cut(wanted, tensors);
        return tensors;
    }

    /// The same apart from it, for what an operator hands to another one.
    TensorView patches(DType dtype, const Shape& shape) { return patches_.tensor(dtype, shape); }

    /// Copies small values of the host to the device, in stream order; they live until the next upload's work
    /// is issued. The host's may change at once.
    TensorView upload(const void* values, DType dtype, const Shape& shape);
    template <class T>
    TensorView upload(std::span<const T> values) {
        return upload(values.data(), dtype_of<T>, {static_cast<std::int64_t>(values.size())});
    }

    /// What operators take from the host that changes from step to step. While the stream is recorded, the
    /// place of the values that each run sets.
    RandomPlaces random_places(std::int64_t epoch, std::span<const std::int64_t> positions);
    TensorView loss_scale(double scale);
    /// Throws RunError while the stream is recorded: `what` takes numbers from the host.
    void forbid_recording(const char* what) const;

    /// From now on engines of new problems are chosen by trials; false: the libraries' first choices are.
    void set_trials(bool wanted);
    /// Null where nobody wants any, and while the stream is recorded.
    EngineTrials* trials() { return recorded_ ? nullptr : trials_.get(); }

    /// From now on the stream is recorded with these; null: no more.
    void record_with(const RecordedValues* values) { recorded_ = values; }
    /// Changes when memory that recorded work may use is given back.
    std::uint64_t memory_replaced() const {
        return scratch_.replaced() + patches_.replaced() + library_workspace_.replaced();
    }

    /// Where notices go.
    void set_notice(std::function<void(const std::string&)> notice) { notice_ = std::move(notice); }
    /// What a user should know of how something is computed; each text is told once.
    void notice(const std::string& text) {
        if (noticed_.insert(text).second && notice_) notice_(text);
    }

    /// Workspace for the libraries, apart from the operators' scratch.
    Scratch& library_workspace() { return library_workspace_; }

    /// Made when they are first asked for: a run without convolutions does not load cuDNN's engines.
    cublasLtContext* cublas();
    cudnnContext* cudnn();

  private:
    void cut(std::span<const Wanted> wanted, std::span<TensorView> tensors);

    OwnedStream compute_;
    std::size_t shared_memory_;
    Scratch scratch_, patches_, uploaded_, library_workspace_;
    SmallUploads uploads_;
    cublasLtContext* cublas_ = nullptr;
    cudnnContext* cudnn_ = nullptr;
    const RecordedValues* recorded_ = nullptr;
    std::unique_ptr<EngineTrials> trials_;
    std::function<void(const std::string&)> notice_;
    std::set<std::string> noticed_;
};

}  // namespace tutti::cuda
