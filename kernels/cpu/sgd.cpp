// The kinds of step of torch.optim.SGD. Scalars are computed in double and rounded once.

#include "../common/update_rules.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

template <class T>
struct Sgd {
    SgdRule<T> rule;
    T* parameter;
    T* buffer;
    const T* gradient;

    /// The kind of step is a template argument, so that each loop is branch-free.
    template <bool with_momentum, bool first_step, bool nesterov>
    void run(std::int64_t begin, std::int64_t end) const {
        T* __restrict p = parameter;
        T* __restrict buf = buffer;
        const T* __restrict grad = gradient;
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
            T g = rule.decayed(grad[i], p[i]);
            if constexpr (with_momentum) {
                const T next = first_step ? g : rule.next_buffer(g, buf[i]);
                buf[i] = next;
                g = nesterov ? g + rule.momentum * next : next;
            }
            p[i] -= rule.lr * g;
        }
    }
};

}  // namespace

template <class T>
void EigenOps<T>::sgd(const SgdStep& step, const TensorView& gradient, const TensorView& parameter,
                      const TensorView& momentum_buffer) {
    const bool with_momentum = step.momentum != 0;
    assert(gradient.count() == parameter.count());
    assert(!with_momentum || momentum_buffer.count() == parameter.count());
    const Sgd<T> sgd{{static_cast<T>(step.lr), static_cast<T>(step.momentum),
                      static_cast<T>(1 - step.dampening), static_cast<T>(step.weight_decay)},
                     parameter.as<T>(),
                     with_momentum ? momentum_buffer.as<T>() : nullptr,
                     gradient.as<T>()};
    for_ranges(parameter.count(), [&](std::int64_t begin, std::int64_t end) {
        if (!with_momentum)
            sgd.template run<false, false, false>(begin, end);
        else if (step.first_step && step.nesterov)
            sgd.template run<true, true, true>(begin, end);
        else if (step.first_step)
            sgd.template run<true, true, false>(begin, end);
        else if (step.nesterov)
            sgd.template run<true, false, true>(begin, end);
        else
            sgd.template run<true, false, false>(begin, end);
    });
}

template void EigenOps<float>::sgd(const SgdStep&, const TensorView&, const TensorView&, const TensorView&);
template void EigenOps<double>::sgd(const SgdStep&, const TensorView&, const TensorView&, const TensorView&);

}  // namespace tutti
