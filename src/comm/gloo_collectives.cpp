#include "gloo_collectives.hpp"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/types.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace tutti {
namespace {

using Combine = void (*)(void*, const void*, const void*, std::size_t);

template <class T, class Operation>
void combine(void* result, const void* left, const void* right, std::size_t count) {
    auto* const to = static_cast<T*>(result);
    const auto* const a = static_cast<const T*>(left);
    const auto* const b = static_cast<const T*>(right);
    for (std::size_t i = 0; i < count; ++i) to[i] = Operation{}(a[i], b[i]);
}

struct Sum {
    template <class T>
    T operator()(T a, T b) const {
        return a + b;
    }
};
struct Max {
    template <class T>
    T operator()(T a, T b) const {
        return std::max(a, b);
    }
};
struct Min {
    template <class T>
    T operator()(T a, T b) const {
        return std::min(a, b);
    }
};

template <class Operation>
Combine combine_of(DType dtype) {
    if (dtype == DType::f32) return combine<float, Operation>;
    if (dtype == DType::f64) return combine<double, Operation>;
    return combine<std::int64_t, Operation>;  // require_reducible came first
}
Combine combine_of(ReduceOp op, DType dtype) {
    if (op == ReduceOp::max) return combine_of<Max>(dtype);
    if (op == ReduceOp::min) return combine_of<Min>(dtype);
    return combine_of<Sum>(dtype);
}

// gloo takes the size of an element from a pointer's type; only that is used of it.
template <class Set>
void with_element_type(DType dtype, const Set& set) {
    switch (size_of(dtype)) {
        case 8:
            return set(static_cast<std::uint64_t*>(nullptr));
        case 4:
            return set(static_cast<std::uint32_t*>(nullptr));
        default:
            return set(static_cast<std::uint8_t*>(nullptr));
    }
}

// Next to the prefixes of gloo's own collectives (gloo/types.h).
constexpr std::uint8_t reduce_scatter_prefix = 0x40;

}  // namespace

void gloo_all_reduce(const GlooCall& call, const TensorView& buffer, ReduceOp op) {
    gloo::AllreduceOptions options(call.context);
    with_element_type(buffer.dtype, [&]<class T>(T*) {
        options.setOutput(reinterpret_cast<T*>(buffer.data), static_cast<std::size_t>(buffer.count()));
    });
    options.setReduceFunction(combine_of(op, buffer.dtype));
    options.setTag(call.number);
    options.setTimeout(call.timeout);
    gloo::allreduce(options);
}

void gloo_reduce_scatter(const GlooCall& call, const TensorView& input, const TensorView& output,
                         ReduceOp op) {
    const int rank = call.context->rank;
    const int size = call.context->size;
    const std::size_t bytes = output.bytes();
    const auto block = [&](int of) { return static_cast<std::size_t>(of) * bytes; };
    std::byte* const own = input.data + block(rank);
    if (output.data != own) std::memcpy(output.data, own, bytes);

    const auto combined = combine_of(op, output.dtype);
    std::vector<std::byte> received(bytes);
    const auto send = call.context->createUnboundBuffer(input.data, input.bytes());
    const auto receive = call.context->createUnboundBuffer(received.data(), bytes);
    const auto slot = gloo::Slot::build(reduce_scatter_prefix, call.number);
    for (int turn = 1; turn < size; ++turn) {
        const int to = (rank + turn) % size;
        receive->recv((rank + size - turn) % size, slot);
        send->send(to, slot, block(to), bytes);
        receive->waitRecv(call.timeout);
        combined(output.data, output.data, received.data(), static_cast<std::size_t>(output.count()));
        send->waitSend(call.timeout);
    }
}

void gloo_all_gather(const GlooCall& call, const TensorView& input, const TensorView& output) {
    const std::size_t bytes = input.bytes();
    std::byte* const own = output.data + static_cast<std::size_t>(call.context->rank) * bytes;
    if (input.data != own) std::memcpy(own, input.data, bytes);
    gloo::AllgatherOptions options(call.context);
    options.setOutput(reinterpret_cast<std::uint8_t*>(output.data), output.bytes());
    options.setTag(call.number);
    options.setTimeout(call.timeout);
    gloo::allgather(options);
}

void gloo_broadcast(const GlooCall& call, const TensorView& buffer, int root) {
    gloo::BroadcastOptions options(call.context);
    options.setOutput(reinterpret_cast<std::uint8_t*>(buffer.data), buffer.bytes());
    options.setRoot(root);
    options.setTag(call.number);
    options.setTimeout(call.timeout);
    gloo::broadcast(options);
}

void gloo_barrier(const GlooCall& call) {
    gloo::BarrierOptions options(call.context);
    options.setTag(call.number);
    options.setTimeout(call.timeout);
    gloo::barrier(options);
}

}  // namespace tutti
