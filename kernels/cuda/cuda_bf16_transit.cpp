#include "cuda_bf16_transit.hpp"

#include "arena_ops.hpp"
#include "device_memory.hpp"
#include "row_sums.hpp"

namespace tutti::cuda {
namespace {

class CudaBf16Transit final : public Bf16Transit {
  public:
    Buffer memory(std::size_t bytes) override {
        auto memory = std::make_shared<DeviceMemory>(bytes, "gradients on their way, in bf16");
        std::byte* const data = memory->data();
        return {data, bytes, std::move(memory)};
    }
    void cast(const TensorView& from, const TensorView& to, void* stream) override {
        cuda::cast(from, to, static_cast<Stream>(stream));
    }
    void add_rows(const TensorView& blocks, const TensorView& sum, void* stream) override {
        cuda::add_rows(blocks, sum, static_cast<Stream>(stream));
    }
};

}  // namespace

std::unique_ptr<Bf16Transit> make_bf16_transit() {
    return std::make_unique<CudaBf16Transit>();
}

}  // namespace tutti::cuda
