#include "tutti/train/gradient_accumulator.hpp"

#include <cassert>

namespace tutti {

GradientAccumulator::GradientAccumulator(const Graph& graph, Device& device, bool needed)
    : ops_(device.ops(graph.gradient_arena().dtype)), gradients_(graph.gradient_arena()) {
    if (!needed) return;
    memory_ = device.allocate(gradients_.bytes(), "accumulated gradients");
    sums_ = memory_.view(0, gradients_.dtype, gradients_.shape);
    const auto slice = [](const TensorView& arena, const Parameter& parameter) {
        return TensorView{arena.data + static_cast<std::size_t>(parameter.offset) * size_of(arena.dtype),
                          arena.dtype,
                          {parameter.count}};
    };
    for (const Parameter& parameter : graph.parameters()) {
        gradient_of_.push_back(slice(gradients_, parameter));
        sum_of_.push_back(slice(sums_, parameter));
    }
}

void GradientAccumulator::take() {
    assert(sums_.defined());
    // The first micro-batch's gradients become the sum: what is left of the last update goes.
    if (taken_)
        ops_.add(gradients_, sums_);
    else
        ops_.swap(gradients_, sums_);
    taken_ = true;
}

void GradientAccumulator::add_to(std::size_t parameter) {
    if (taken_) ops_.add(sum_of_[parameter], gradient_of_[parameter]);
}

}  // namespace tutti
