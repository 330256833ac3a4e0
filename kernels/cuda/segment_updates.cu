#include "segment_updates.hpp"

#include <cmath>

#include "../common/update_rules.hpp"
#include "launch.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

struct Sgd {
    SgdRule<float> rule;
    bool with_momentum, first_step, nesterov;
    __device__ void operator()(float g, float& p, float& buffer) const {
        g = rule.decayed(g, p);
        if (with_momentum) {
            buffer = first_step ? g : rule.next_buffer(g, buffer);
            g = nesterov ? g + rule.momentum * buffer : buffer;
        }
        p -= rule.lr * g;
    }
};

struct Adam {
    AdamRule<float> rule;
    __device__ float operator()(float g, float& p, float& m, float& v) const {
        rule.update(g, p, m, v);
        return g;
    }
};

struct Adadelta {
    float lr, rho, one_minus_rho, eps, weight_decay;
    __device__ float operator()(float gradient, float& p, float& square_average, float& delta_average) const {
        const float g = gradient + weight_decay * p;
        const float v = square_average * rho + one_minus_rho * g * g;
        const float delta = sqrtf(delta_average + eps) / sqrtf(v + eps) * g;
        square_average = v;
        delta_average = delta_average * rho + one_minus_rho * delta * delta;
        p -= lr * delta;
        return gradient;
    }
};

struct LambDirection {
    LambRule<float> rule;
    __device__ float operator()(float g, float& p, float& m, float& v) const {
        return rule.direction(g, p, m, v);
    }
};

template <int N>
__global__ void __launch_bounds__(256)
    update_with_buffer(Sgd f, const float* RESTRICT gradient, float* RESTRICT parameter,
                       float* RESTRICT buffer, std::int64_t count) {
    for_elements<N>(count, [&]<int M>(std::int64_t i, Lanes<M>) {
        float g[M], p[M], b[M] = {};
        load(gradient + i, g);
        load(parameter + i, p);
        if (f.with_momentum && !f.first_step) load(buffer + i, b);
#pragma unroll
        for (int k = 0; k < M; ++k) f(g[k], p[k], b[k]);
        store(parameter + i, p);
        if (f.with_momentum) store(buffer + i, b);
    });
}

/// With two states; the rule's value goes to `direction`, unless that is null. direction may be gradient.
template <int N, class Rule>
__global__ void __launch_bounds__(256)
    update_with_states(Rule f, const float* gradient, float* RESTRICT parameter, float* RESTRICT first,
                       float* RESTRICT second, float* direction, std::int64_t count) {
    for_elements<N>(count, [&]<int M>(std::int64_t i, Lanes<M>) {
        float g[M], p[M], a[M], b[M];
        load(gradient + i, g);
        load(parameter + i, p);
        load(first + i, a);
        load(second + i, b);
#pragma unroll
        for (int k = 0; k < M; ++k) g[k] = f(g[k], p[k], a[k], b[k]);
        store(first + i, a);
        store(second + i, b);
        if (direction)
            store(direction + i, g);
        else
            store(parameter + i, p);
    });
}

template <int N>
__global__ void __launch_bounds__(256)
    apply_direction(double lr, const double* RESTRICT squares, const float* RESTRICT direction,
                    float* RESTRICT parameter, std::int64_t count) {
    const float rate = static_cast<float>(lr * trust_ratio(squares[0], squares[1]));
    for_elements<N>(count, [&]<int M>(std::int64_t i, Lanes<M>) {
        float u[M], p[M];
        load(direction + i, u);
        load(parameter + i, p);
#pragma unroll
        for (int k = 0; k < M; ++k) p[k] -= rate * u[k];
        store(parameter + i, p);
    });
}

template <class Rule>
void update(const char* name, const Rule& rule, const TensorView& gradient, const TensorView& parameter,
            const TensorView& first, const TensorView& second, const TensorView& direction, Stream stream) {
    const std::int64_t count = parameter.count();
    assert(gradient.count() == count && first.count() == count && second.count() == count);
    const bool wide = aligned(gradient.data, parameter.data, first.data, second.data, direction.data);
    with_lanes<float>(wide, [&]<int N>(Lanes<N>) {
        launch(name, update_with_states<N, Rule>, elementwise(divided_up(count, N)), stream, rule,
               gradient.as<float>(), parameter.as<float>(), first.as<float>(), second.as<float>(),
               direction.as<float>(), count);
    });
}

}  // namespace

void sgd(const SgdStep& step, const TensorView& gradient, const TensorView& parameter,
         const TensorView& momentum_buffer, Stream stream) {
    const Sgd rule{{static_cast<float>(step.lr), static_cast<float>(step.momentum),
                    static_cast<float>(1 - step.dampening), static_cast<float>(step.weight_decay)},
                   step.momentum != 0,
                   step.first_step,
                   step.nesterov};
    assert(gradient.count() == parameter.count());
    assert(!rule.with_momentum || momentum_buffer.count() == parameter.count());
    const bool wide = aligned(gradient.data, parameter.data, momentum_buffer.data);
    with_lanes<float>(wide, [&]<int N>(Lanes<N>) {
        launch("sgd of a segment", update_with_buffer<N>, elementwise(divided_up(parameter.count(), N)),
               stream, rule, gradient.as<float>(), parameter.as<float>(),
               rule.with_momentum ? momentum_buffer.as<float>() : nullptr, parameter.count());
    });
}

void adam(const AdamStep& step, const TensorView& gradient, const TensorView& parameter,
          const TensorView& first_moment, const TensorView& second_moment, Stream stream) {
    assert(step.step >= 1);
    const double t = static_cast<double>(step.step);
    const Adam rule{
        {static_cast<float>(step.decoupled ? 1 - step.lr * step.weight_decay : 1.0),
         static_cast<float>(step.decoupled ? 0.0 : step.weight_decay), static_cast<float>(1 - step.beta1),
         static_cast<float>(step.beta2), static_cast<float>(1 - step.beta2),
         static_cast<float>(step.lr / (1 - std::pow(step.beta1, t))),
         static_cast<float>(std::sqrt(1 - std::pow(step.beta2, t))), static_cast<float>(step.eps)}};
    update("adam of a segment", rule, gradient, parameter, first_moment, second_moment, {}, stream);
}

void adadelta(const AdadeltaStep& step, const TensorView& gradient, const TensorView& parameter,
              const TensorView& square_average, const TensorView& delta_average, Stream stream) {
    const Adadelta rule{static_cast<float>(step.lr), static_cast<float>(step.rho),
                        static_cast<float>(1 - step.rho), static_cast<float>(step.eps),
                        static_cast<float>(step.weight_decay)};
    update("adadelta of a segment", rule, gradient, parameter, square_average, delta_average, {}, stream);
}

void lamb_direction(const LambStep& step, const TensorView& gradient, const TensorView& parameter,
                    const TensorView& first_moment, const TensorView& second_moment, const TensorView& update,
                    Stream stream) {
    assert(step.step >= 1 && update.count() == parameter.count());
    const double t = static_cast<double>(step.step);
    const LambDirection rule{{static_cast<float>(1 - step.beta1), static_cast<float>(step.beta2),
                              static_cast<float>(1 - step.beta2),
                              static_cast<float>(1 / (1 - std::pow(step.beta1, t))),
                              static_cast<float>(std::sqrt(1 - std::pow(step.beta2, t))),
                              static_cast<float>(step.eps), static_cast<float>(step.weight_decay)}};
    cuda::update("lamb direction of a segment", rule, gradient, parameter, first_moment, second_moment,
                 update, stream);
}

void lamb_apply(double lr, const TensorView& squares, const TensorView& update, const TensorView& parameter,
                Stream stream) {
    assert(update.count() == parameter.count() && squares.count() == 2);
    with_lanes<float>(aligned(update.data, parameter.data), [&]<int N>(Lanes<N>) {
        launch("lamb of a segment", apply_direction<N>, elementwise(divided_up(parameter.count(), N)), stream,
               lr, squares.as<double>(), update.as<float>(), parameter.as<float>(), parameter.count());
    });
}

}  // namespace tutti::cuda
