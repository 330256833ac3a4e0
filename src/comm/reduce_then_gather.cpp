// Reduction, use and gathering one after the other, on any communicator.

#include "checks.hpp"
#include "tutti/comm/communicator.hpp"

namespace tutti {
namespace {

TensorView block_of(const TensorView& whole, int rank, int size) {
    const std::int64_t count = whole.count() / size;
    return {whole.data + static_cast<std::size_t>(count * rank) * size_of(whole.dtype), whole.dtype, {count}};
}

}  // namespace

Work Communicator::reduce_then_gather(const TensorView& input, const TensorView& output, UseSums use) {
    require_pair("reduce_then_gather", input, output, size());
    if (input.count() == 0) return {};
    reduce_scatter(input, block_of(input, rank(), size()), ReduceOp::sum).wait();
    use(0, input.count() / size());
    return all_gather(block_of(output, rank(), size()), output);
}

}  // namespace tutti
