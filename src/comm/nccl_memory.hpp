#pragma once
// Private to comm: device memory that NCCL gives.

#include <sched.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <utility>

#include "nccl_job.hpp"

namespace tutti {

/// Memory that may be a window of the communicator's, which it keeps until both are gone.
class NcclMemory {
  public:
    /// data() stays null where NCCL gives none.
    NcclMemory(std::shared_ptr<NcclJob> job, std::size_t bytes) : job_(std::move(job)), bytes_(bytes) {
        if (job_->api().allocate(data_, bytes) != NcclResult::success) data_ = nullptr;
    }
    NcclMemory(const NcclMemory&) = delete;
    NcclMemory& operator=(const NcclMemory&) = delete;
    ~NcclMemory() {
        if (!data_) return;
        try {
            // A peer may be lost for which the work waits.
            if (std::uncaught_exceptions() > 0) job_->leave_behind();
            // The process is about to end with it.
            if (job_->stuck()) return;
            // Neither this nor ncclMemFree waits for work on the memory, as cudaFree would.
            job_->stream().follow_compute();
            const auto mark = job_->stream().mark();
            while (!mark->reached()) sched_yield();
            if (window_ && !job_->broken()) job_->remove_window(window_);
        } catch (...) {
            // Broken by now, and so aborted; the first error is on its way.
        }
        job_->api().release(data_);
    }

    std::byte* data() const { return data_; }
    /// Collective. False where this NCCL or these GPUs know no windows.
    bool make_window() {
        job_->settle("ncclCommWindowRegister",
                     job_->api().register_window(job_->communicator(), data_, bytes_, window_));
        return window_ != nullptr;
    }

  private:
    std::shared_ptr<NcclJob> job_;
    std::size_t bytes_;
    std::byte* data_ = nullptr;
    NcclWindow window_ = nullptr;
};

}  // namespace tutti
