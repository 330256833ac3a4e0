#pragma once
// Streams and events of CUDA, owned.

#include <utility>

#include "stream.hpp"

struct CUevent_st;

namespace tutti::cuda {

/// Where blocks of two streams wait for the GPU, those of the high priority go first.
enum class StreamPriority { normal, high };

/// Whether since() is to know when an event was reached; without it is cheaper.
enum class EventTiming { off, on };

/// A point in a stream's work.
class Event {
  public:
    explicit Event(EventTiming timing = EventTiming::off);
    ~Event();
    Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
    Event& operator=(Event&& other) noexcept {
        std::swap(event_, other.event_);
        return *this;
    }

    /// The point is after all work issued to `stream` so far.
    void record(Stream stream);
    /// Whether the point was reached; true before the first record. Throws what the work before it died of.
    bool reached() const;
    /// Waits on the host.
    void synchronize() const;
    /// Seconds from `start` to this point, to about 0.5 µs (CUDA Runtime API, cudaEventElapsedTime). Both
    /// must have been reached, with their timing on.
    double since(const Event& start) const;
    CUevent_st* get() const { return event_; }

  private:
    CUevent_st* event_ = nullptr;
};

/// Independent of the default stream (non-blocking), so that nothing waits unasked.
class OwnedStream {
  public:
    explicit OwnedStream(StreamPriority priority = StreamPriority::normal);
    ~OwnedStream();
    OwnedStream(const OwnedStream&) = delete;
    OwnedStream& operator=(const OwnedStream&) = delete;

    Stream get() const { return stream_; }
    /// What is issued from now on begins after `event`; the host goes on.
    void wait(const Event& event) const;
    /// Waits on the host until all that was issued has ended.
    void synchronize() const;

  private:
    Stream stream_ = nullptr;
};

}  // namespace tutti::cuda
