#include "cuda_marks.hpp"

#include <cassert>

namespace tutti::cuda {

std::size_t CudaMarks::set() {
    if (used_ == events_.size()) events_.emplace_back(EventTiming::on);
    events_[used_].record(context_->stream());
    return used_++;
}

void CudaMarks::wait() {
    end_.record(context_->stream());
    end_.synchronize();
    ended_ = Clock::now();
}

DeviceMarks::Clock::time_point CudaMarks::passed(std::size_t mark) const {
    assert(mark < used_);
    const std::chrono::duration<double> before(end_.since(events_[mark]));
    return ended_ - std::chrono::duration_cast<Clock::duration>(before);
}

}  // namespace tutti::cuda
