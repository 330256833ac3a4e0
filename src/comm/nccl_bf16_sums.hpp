#pragma once
// Private to comm: sums of f32 that NCCL carries as bf16.

#include <memory>
#include <vector>

#include "nccl_job.hpp"
#include "tutti/device/bf16_transit.hpp"

namespace tutti {

/// One communicator's. The sums have the bits of make_compressing_communicator: each rank's values rounded,
/// added in fp32 in rank order, rounded once. NCCL's own sums of bf16 round after each addition, so they do
/// for two ranks only. With more, each rank gets its block of all (sends and receives), adds it, and gives it
/// to all: as many bytes as an all-reduce.
class NcclBf16Sums {
  public:
    NcclBf16Sums(std::shared_ptr<NcclJob> job, std::shared_ptr<Bf16Transit> transit)
        : job_(std::move(job)), transit_(std::move(transit)) {}
    NcclBf16Sums(const NcclBf16Sums&) = delete;
    NcclBf16Sums& operator=(const NcclBf16Sums&) = delete;
    ~NcclBf16Sums();

    /// Bytes of transit for a buffer of `count` f32.
    std::size_t needs(std::int64_t count) const;
    /// Whether there is memory for that.
    bool takes(std::int64_t count) const { return !memory_.empty() && memory_.back().size() >= needs(count); }
    /// For buffers that need no more; behind what has been issued with the memory before, which lives on.
    void use(Buffer memory);
    /// Makes ordinary memory where the last was too small, for a buffer of `count`.
    void reserve(std::int64_t count);
    /// To the side stream, which follows the computing one up to here. The calls are named `description`.
    void all_reduce(const TensorView& floats, const std::string& description);

  private:
    std::int64_t block(std::int64_t count) const;

    std::shared_ptr<NcclJob> job_;
    std::shared_ptr<Bf16Transit> transit_;
    // The last is in use. Recordings may have the others.
    std::vector<Buffer> memory_;
};

}  // namespace tutti
