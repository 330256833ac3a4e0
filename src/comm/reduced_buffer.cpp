#include "tutti/comm/reduced_buffer.hpp"

#include <exception>
#include <string>

#include "tutti/base/error.hpp"

namespace tutti {

ReducedBuffer::ReducedBuffer(Communicator& communicator, Communicator& control, Device* device,
                             std::size_t floats, const std::string& remedy)
    : device_(device) {
    const std::size_t bytes = floats * sizeof(float);
    together(control, "allocating the buffer", [&] {
        try {
            floats_.resize(floats);
        } catch (const std::exception&) {
            throw UsageError("there is no memory for a buffer of " + std::to_string(bytes) + " bytes",
                             remedy);
        }
    });
    if (!device_) return;
    memory_ = communicator.allocate(bytes);
    if (memory_.size() > 0) return;
    together(control, "allocating the buffer",
             [&] { memory_ = device_->allocate(bytes, "the all-reduce's buffer"); });
}

TensorView ReducedBuffer::view(std::size_t floats) {
    if (!device_) return view_of(host(floats));
    return memory_.view(0, DType::f32, {static_cast<std::int64_t>(floats)});
}

TensorView ReducedBuffer::take(std::size_t floats) {
    const TensorView reduced = view(floats);
    if (device_) device_->copy_from_host(reduced, floats_.data());
    return reduced;
}

void ReducedBuffer::give(std::size_t floats) {
    if (device_) device_->copy_to_host(floats_.data(), view(floats));
}

}  // namespace tutti
