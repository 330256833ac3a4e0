#pragma once
// The streams of a GPU that is not there: work waits in queues, and goes on when somebody asks whether it is
// done.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu_side_stream.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {

/// In order; its operations run in run_streams.
class FakeStream {
  public:
    /// Called again and again until it says that it is done.
    using Operation = std::function<bool()>;
    void issue(Operation operation) {
        queue_.push_back(std::move(operation));
        ++issued_;
    }
    /// Goes on as far as it can; true when something was done.
    bool run() {
        bool moved = false;
        for (; !queue_.empty() && queue_.front()(); moved = true) {
            queue_.pop_front();
            ++done_;
        }
        return moved;
    }
    std::uint64_t issued() const { return issued_; }
    std::uint64_t done() const { return done_; }

  private:
    std::deque<Operation> queue_;
    std::uint64_t issued_ = 0, done_ = 0;
};

/// One rank's: a computing stream and side streams.
class FakeGpu {
  public:
    FakeStream& compute() { return *streams_.front(); }
    FakeStream& add_stream() { return *streams_.emplace_back(std::make_unique<FakeStream>()); }
    void run() {
        for (bool moved = true; moved;) {
            moved = false;
            for (const auto& stream : streams_) moved |= stream->run();
        }
    }
    /// As if what is issued were recorded; it is done all the same.
    bool recording = false;
    /// As after an access that kills the context: who asks about streams is told that, whatever was the
    /// question.
    bool dead = false;
    /// Everything that was issued.
    void finish() {
        for (const auto& stream : streams_)
            while (stream->done() < stream->issued()) run();
    }

  private:
    std::vector<std::unique_ptr<FakeStream>> streams_ = [] {
        std::vector<std::unique_ptr<FakeStream>> streams;
        streams.push_back(std::make_unique<FakeStream>());
        return streams;
    }();
};

class FakeSideStream final : public GpuSideStream {
  public:
    explicit FakeSideStream(std::shared_ptr<FakeGpu> gpu)
        : gpu_(std::move(gpu)), stream_(gpu_->add_stream()) {}

    std::shared_ptr<GpuSideStream> duplicate() override { return std::make_shared<FakeSideStream>(gpu_); }
    GpuStream handle() const override { return &stream_; }
    void follow_compute() override {
        FakeStream& compute = gpu_->compute();
        stream_.issue([&compute, until = compute.issued()] { return compute.done() >= until; });
    }
    std::unique_ptr<GpuMark> mark() override { return std::make_unique<Mark>(*gpu_, stream_); }
    void compute_follows(GpuMark& mark) override {
        auto& point = static_cast<Mark&>(mark);
        gpu_->compute().issue([&stream = stream_, until = point.until] { return stream.done() >= until; });
    }

    bool recording() const override {
        if (gpu_->dead) throw RunError("cudaStreamIsCapturing failed: cudaErrorIllegalAddress", "");
        return gpu_->recording;
    }
    std::unique_ptr<GpuMark> mark_compute() override {
        return std::make_unique<Mark>(*gpu_, gpu_->compute());
    }

  private:
    struct Mark final : GpuMark {
        Mark(FakeGpu& on, FakeStream& in) : gpu(on), stream(in), until(in.issued()) {}
        bool reached() override {
            if (gpu.dead) throw RunError("cudaEventQuery failed: cudaErrorIllegalAddress", "");
            if (gpu.recording) throw std::logic_error("nobody can ask for a place in a recording");
            gpu.run();
            return stream.done() >= until;
        }
        FakeGpu& gpu;
        FakeStream& stream;
        std::uint64_t until;
    };

    std::shared_ptr<FakeGpu> gpu_;
    FakeStream& stream_;
};

}  // namespace tutti::test
