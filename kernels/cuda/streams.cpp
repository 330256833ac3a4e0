#include "streams.hpp"

#include "gpu_error.hpp"

namespace tutti::cuda {

Event::Event(EventTiming timing) {
    const unsigned flags = timing == EventTiming::on ? cudaEventDefault : cudaEventDisableTiming;
    check(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreateWithFlags");
}
Event::~Event() {
    if (event_) cudaEventDestroy(event_);
}
void Event::record(Stream stream) {
    check(cudaEventRecord(event_, stream), "cudaEventRecord");
}
bool Event::reached() const {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
        cudaGetLastError();  // kept as one, it would be told to who next asks whether a launch failed
        return false;
    }
    check(status, "cudaEventQuery");
    return true;
}
void Event::synchronize() const {
    check(cudaEventSynchronize(event_), "cudaEventSynchronize");
}

double Event::since(const Event& start) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) / 1e3;
}

OwnedStream::OwnedStream(StreamPriority priority) {
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                       priority == StreamPriority::high ? greatest : least),
          "cudaStreamCreateWithPriority");
}
OwnedStream::~OwnedStream() {
    cudaStreamDestroy(stream_);
}
void OwnedStream::wait(const Event& event) const {
    check(cudaStreamWaitEvent(stream_, event.get(), 0), "cudaStreamWaitEvent");
}
void OwnedStream::synchronize() const {
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

}  // namespace tutti::cuda
