#pragma once
// A GPU as a Device.

#include <functional>
#include <memory>
#include <string>

#include "cuda_context.hpp"
#include "tutti/device/device.hpp"
#include "tutti/device/recorder.hpp"

namespace tutti::cuda {

/// All work goes to one stream, so it is ordered as issued, and a call returns before its work has ended;
/// copies between host and device wait for what they copy. Upload lanes have a stream of their own. One
/// thread.
class CudaDevice final : public Device {
  public:
    /// `index` counts the GPUs that this process may use. Throws GpuError.
    explicit CudaDevice(int index);

    std::string kind() const override { return "cuda"; }
    /// "NVIDIA H200, 143771 MiB, cuDNN 9.19.0".
    std::string description() const override { return description_; }
    Buffer allocate(std::size_t bytes, const std::string& purpose) override;
    void copy_from_host(const TensorView& device, const void* host) override;
    void copy_to_host(void* host, const TensorView& device) override;
    Buffer allocate_host(std::size_t bytes, const std::string& purpose) override;
    bool uploads_ahead() const override { return true; }
    std::unique_ptr<UploadLane> make_upload_lane(std::span<const UploadPart> parts) override;
    std::size_t upload_lane_bytes(std::span<const UploadPart> parts) const override;
    /// f32, with products in f32, tf32 or bf16.
    Ops& ops(Arithmetic arithmetic) override;
    /// The host does not compute: nobody is called.
    void set_progress(std::function<void()>) override {}
    void set_notice(std::function<void(const std::string&)> notice) override {
        context_->set_notice(std::move(notice));
    }
    void begin_step() override;
    void set_engine_trials(bool wanted) override { context_->set_trials(wanted); }
    std::unique_ptr<DeviceMarks> make_marks() override;
    /// Made when it is first asked for.
    WorkRecorder* recorder() override;

    /// Where everything is ordered. Communication that reads or writes this device's memory waits for events
    /// of this stream, and this stream for its.
    Stream compute_stream() const { return context_->stream(); }

  private:
    std::string description_;
    std::shared_ptr<CudaContext> context_;
    std::unique_ptr<Ops> fp32_, tf32_, bf16_;
    std::unique_ptr<WorkRecorder> recorder_;
};

}  // namespace tutti::cuda
