#pragma once
// Marks in a GPU's work, as events of its compute stream.

#include <memory>
#include <vector>

#include "cuda_context.hpp"
#include "streams.hpp"
#include "tutti/device/device_marks.hpp"

namespace tutti::cuda {

/// Throws GpuError.
class CudaMarks final : public DeviceMarks {
  public:
    explicit CudaMarks(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}

    void clear() override { used_ = 0; }
    std::size_t set() override;
    void wait() override;
    Clock::time_point passed(std::size_t mark) const override;

  private:
    std::shared_ptr<CudaContext> context_;
    std::vector<Event> events_;  ///< the first used_ are marks
    std::size_t used_ = 0;
    Event end_{EventTiming::on};
    Clock::time_point ended_;  ///< when the host saw that end_ was reached
};

}  // namespace tutti::cuda
