#pragma once
// Private to comm: the stream beside the computing one, on which transfers go.

#include <memory>

#include "nccl_api.hpp"

namespace tutti {

/// A point in a stream. Reached once everything issued there before it is done.
class GpuMark {
  public:
    virtual ~GpuMark() = default;
    virtual bool reached() = 0;
};

/// Of the highest priority, so that a transfer's few blocks start while kernels of backward fill the GPU. One
/// thread.
class GpuSideStream {
  public:
    virtual ~GpuSideStream() = default;
    /// Another one of the same computing stream: two communicators whose ranks issue in different orders
    /// would wait for each other on one.
    virtual std::shared_ptr<GpuSideStream> duplicate() = 0;
    virtual GpuStream handle() const = 0;
    /// What is issued there from now on begins when all that was issued on the computing stream is done.
    virtual void follow_compute() = 0;
    virtual std::unique_ptr<GpuMark> mark() = 0;
    /// What is issued on the computing stream from now on begins when the mark is reached.
    virtual void compute_follows(GpuMark& mark) = 0;
    /// Whether what is issued on the computing stream is recorded and not done; marks then lie in the
    /// recording, and nobody may ask whether they are reached. Throws RunError, as all of these, where the
    /// GPU has failed.
    virtual bool recording() const = 0;
    /// A point in the computing stream.
    virtual std::unique_ptr<GpuMark> mark_compute() = 0;
};

}  // namespace tutti
