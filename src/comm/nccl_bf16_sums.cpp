#include "nccl_bf16_sums.hpp"

#include <exception>
#include <string>
#include <utility>

namespace tutti {
namespace {

/// Elements of 16 bytes, of which kernels move whole ones.
constexpr std::int64_t together_at = 8;

}  // namespace

NcclBf16Sums::~NcclBf16Sums() {
    // Freeing waits for the GPU, where kernels may wait for a lost peer: those are ended first, or else the
    // process is, with this memory.
    try {
        if (std::uncaught_exceptions() > 0) job_->leave_behind();
    } catch (...) {
        // Broken by now; the first error is on its way.
    }
    if (job_->stuck())
        for (Buffer& memory : memory_) new Buffer(std::move(memory));
}

std::int64_t NcclBf16Sums::block(std::int64_t count) const {
    if (job_->size() <= 2) return (count + 1) / 2;
    const std::int64_t ranks = job_->size() * together_at;
    return (count + ranks - 1) / ranks * together_at;
}

std::size_t NcclBf16Sums::needs(std::int64_t count) const {
    const std::size_t halves = 2 * static_cast<std::size_t>(job_->size() * block(count));
    // What comes from the others fits into the buffer, which is empty meanwhile, unless that is tiny.
    const bool fits = job_->size() <= 2 || halves <= 4 * static_cast<std::size_t>(count);
    return fits ? halves : 2 * halves;
}

void NcclBf16Sums::use(Buffer memory) {
    memory_.push_back(std::move(memory));
}

void NcclBf16Sums::reserve(std::int64_t count) {
    if (!takes(count)) use(transit_->memory(needs(count)));
}

void NcclBf16Sums::all_reduce(const TensorView& floats, const std::string& description) {
    reserve(floats.count());
    const GpuStream stream = job_->stream().handle();
    NcclApi& nccl = job_->api();
    const Buffer& memory = memory_.back();
    const TensorView values = memory.view(0, DType::bf16, {floats.count()});
    job_->stream().follow_compute();
    transit_->cast(floats, values, stream);
    if (job_->size() <= 2) {
        job_->settle(description, nccl.all_reduce(values, ReduceOp::sum, job_->communicator(), stream));
    } else {
        const std::int64_t own = block(floats.count()), ranks = job_->size();
        const TensorView sent = memory.view(0, DType::bf16, {ranks, own});
        const bool fits = sent.bytes() <= floats.bytes();
        const TensorView received{
            fits ? floats.data : memory.data() + sent.bytes(), DType::bf16, {ranks, own}};
        const TensorView sum{sent.data + 2 * own * job_->rank(), DType::bf16, {own}};
        job_->settle(description,
                     nccl.all_to_all(sent, received, job_->size(), job_->communicator(), stream));
        transit_->add_rows(received, sum, stream);
        job_->settle(description, nccl.all_gather(sum, sent, job_->communicator(), stream));
    }
    transit_->cast(values, floats, stream);
}

}  // namespace tutti
