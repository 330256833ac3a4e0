// Graphs of attention: cuDNN's own operation for forward, and for backward any graph of products, pointwise
// operations, sums of rows and reshapes, one operation after the other in double. What tensor cores read is
// rounded to bf16 first, as are tensors of that type.

#include <array>
#include <cmath>
#include <functional>

#include "fake_cudnn.hpp"

namespace tutti::fake_gpu {
namespace {

using Place = std::array<std::int64_t, 4>;

double rounded_to_bf16(double value) {
    const auto narrow = static_cast<float>(value);
    std::uint32_t bits;
    std::memcpy(&bits, &narrow, sizeof bits);
    bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000;  // to the nearest, ties to even
    float result;
    std::memcpy(&result, &bits, sizeof result);
    return static_cast<double>(result);
}

bool is_true(const Descriptor& tensor, int flag) {
    return tensor.has(flag) && tensor.values.at(flag).at(0) != std::byte{0};
}

/// A tensor of the graph: in the memory that the variant pack names, or inside.
struct Operand {
    Place dims, strides;
    bool bf16 = false;
    void* data = nullptr;
    std::shared_ptr<std::vector<double>> inside;

    std::int64_t offset(const Place& place) const {
        std::int64_t at = 0;
        for (std::size_t i = 0; i < 4; ++i)
            if (dims[i] > 1) at += place[i] * strides[i];  // one element serves all
        return at;
    }
    double get(const Place& place) const {
        const std::int64_t at = offset(place);
        if (inside) return inside->at(static_cast<std::size_t>(at));
        if (!bf16) return static_cast<double>(static_cast<const float*>(data)[at]);
        const std::uint32_t bits = std::uint32_t{static_cast<const std::uint16_t*>(data)[at]} << 16;
        float value;
        std::memcpy(&value, &bits, sizeof value);
        return static_cast<double>(value);
    }
    void set(const Place& place, double value) const {
        const std::int64_t at = offset(place);
        const double kept = bf16 ? rounded_to_bf16(value) : value;
        if (inside) {
            inside->at(static_cast<std::size_t>(at)) = kept;
            return;
        }
        const auto narrow = static_cast<float>(kept);
        if (!bf16) {
            static_cast<float*>(data)[at] = narrow;
            return;
        }
        std::uint32_t bits;
        std::memcpy(&bits, &narrow, sizeof bits);
        static_cast<std::uint16_t*>(data)[at] = static_cast<std::uint16_t>(bits >> 16);
    }
    void for_each(const std::function<void(const Place&)>& visit) const {
        for (std::int64_t a = 0; a < dims[0]; ++a)
            for (std::int64_t b = 0; b < dims[1]; ++b)
                for (std::int64_t c = 0; c < dims[2]; ++c)
                    for (std::int64_t d = 0; d < dims[3]; ++d) visit({a, b, c, d});
    }
};

class Evaluation {
  public:
    explicit Evaluation(const Descriptor& pack) : pack_(pack) {}

    bool run(const Descriptor& operation) {
        switch (operation.type) {
            case CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR:
                attend(operation);
                break;
            case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
                multiply(operand(operation.child(CUDNN_ATTR_OPERATION_MATMUL_ADESC)),
                         operand(operation.child(CUDNN_ATTR_OPERATION_MATMUL_BDESC)),
                         operand(operation.child(CUDNN_ATTR_OPERATION_MATMUL_CDESC)));
                break;
            case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
                return apply(operation);
            case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
                sum_rows(operand(operation.child(CUDNN_ATTR_OPERATION_REDUCTION_XDESC)),
                         operand(operation.child(CUDNN_ATTR_OPERATION_REDUCTION_YDESC)));
                break;
            case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
                reshape(operation.child(CUDNN_ATTR_OPERATION_RESHAPE_XDESC),
                        operation.child(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
                break;
            default:
                return false;
        }
        return usable_;
    }

  private:
    Operand operand(const Descriptor& tensor) {
        const auto id = tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)[0];
        const auto known = inside_.find(id);
        if (known != inside_.end()) return known->second;
        Operand made;
        const auto dims = tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
        const auto strides = tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
        std::int64_t last = 0;
        for (std::size_t i = 0; i < 4; ++i) {
            made.dims[i] = dims.at(i);
            made.strides[i] = strides.at(i);
            last += (dims[i] - 1) * strides[i];
        }
        made.bf16 = tensor.all<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)[0] == CUDNN_DATA_BFLOAT16;
        if (is_true(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
            made.inside = std::make_shared<std::vector<double>>(static_cast<std::size_t>(last + 1), NAN);
            inside_[id] = made;
            return made;
        }
        const auto ids = pack_.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
        const auto pointers = pack_.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (ids[i] == id) made.data = pointers[i];
        const auto alignment = tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)[0];
        const bool aligned =
            reinterpret_cast<std::uintptr_t>(made.data) % static_cast<std::uintptr_t>(alignment) == 0;
        if (!made.data || (!aligned && !is_true(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE))) usable_ = false;
        return made;
    }

    void multiply(const Operand& a, const Operand& b, const Operand& c) {
        usable_ = usable_ && a.dims[3] == b.dims[2] && c.dims[2] == a.dims[2] && c.dims[3] == b.dims[3];
        if (!usable_) return;
        c.for_each([&](const Place& at) {
            double sum = 0;
            for (std::int64_t k = 0; k < a.dims[3]; ++k)
                sum += rounded_to_bf16(a.get({at[0], at[1], at[2], k})) *
                       rounded_to_bf16(b.get({at[0], at[1], k, at[3]}));
            c.set(at, sum);
        });
    }

    bool apply(const Descriptor& operation) {
        const auto mode = operation.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
                              .all<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE)[0];
        const Operand x = operand(operation.child(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
        const Operand y = operand(operation.child(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
        const bool binary = operation.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
        const Operand b = binary ? operand(operation.child(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)) : x;
        if (!usable_ || binary != (mode != CUDNN_POINTWISE_EXP)) return false;
        y.for_each([&](const Place& at) {
            y.set(at, mode == CUDNN_POINTWISE_EXP   ? std::exp(x.get(at))
                      : mode == CUDNN_POINTWISE_SUB ? x.get(at) - b.get(at)
                                                    : x.get(at) * b.get(at));
        });
        return mode == CUDNN_POINTWISE_EXP || mode == CUDNN_POINTWISE_SUB || mode == CUDNN_POINTWISE_MUL;
    }

    void sum_rows(const Operand& x, const Operand& y) {
        if (!usable_) return;
        y.for_each([&](const Place& at) {
            double sum = 0;
            for (std::int64_t k = 0; k < x.dims[3]; ++k) sum += x.get({at[0], at[1], at[2], k});
            y.set(at, sum);
        });
    }

    /// The same memory under other dimensions and strides, rounded where the type is narrower.
    void reshape(const Descriptor& from, const Descriptor& to) {
        const Operand x = operand(from);
        Operand y = operand(to);
        if (x.inside) {
            *y.inside = *x.inside;
            if (y.bf16)
                for (double& value : *y.inside) value = rounded_to_bf16(value);
            return;
        }
        y.inside = nullptr;
        y.data = x.data;
        inside_[to.all<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)[0]] = y;
    }

    void attend(const Descriptor& operation) {
        const Operand q = operand(operation.child(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC));
        const Operand k = operand(operation.child(CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC));
        const Operand v = operand(operation.child(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC));
        const Operand out = operand(operation.child(CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC));
        const Operand statistics = operand(operation.child(CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC));
        const Operand scale = operand(operation.child(CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC));
        if (!usable_) return;
        const double factor = scale.get({});
        statistics.for_each([&](const Place& row) {
            std::vector<double> p(static_cast<std::size_t>(k.dims[2]));
            double most = -INFINITY, sum = 0;
            for (std::int64_t j = 0; j < k.dims[2]; ++j) {
                double& score = p[static_cast<std::size_t>(j)];
                for (std::int64_t d = 0; d < q.dims[3]; ++d)
                    score += q.get({row[0], row[1], row[2], d}) * k.get({row[0], row[1], j, d});
                score *= factor;
                most = std::max(most, score);
            }
            for (double& value : p) sum += value = std::exp(value - most);
            statistics.set(row, most + std::log(sum));
            for (std::int64_t d = 0; d < v.dims[3]; ++d) {
                double value = 0;
                for (std::int64_t j = 0; j < k.dims[2]; ++j)
                    value += rounded_to_bf16(p[static_cast<std::size_t>(j)]) * v.get({row[0], row[1], j, d});
                out.set({row[0], row[1], row[2], d}, value / sum);
            }
        });
    }

    const Descriptor& pack_;
    std::map<std::int64_t, Operand> inside_;  // and views of memory outside
    bool usable_ = true;
};

const std::vector<std::shared_ptr<Descriptor>>& operations_of(const Descriptor& graph) {
    return graph.children.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
}
bool is_forward(const Descriptor& graph) {
    return operations_of(graph)[0]->type == CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR;
}

}  // namespace

bool is_attention(const Descriptor& graph) {
    return operations_of(graph).size() > 1 || is_forward(graph);
}

bool has_attention_engine(const Descriptor& graph) {
    if (!is_attention(graph)) return true;
    for (const auto& operation : operations_of(graph)) {
        // Forward's q, or the first product's: q, too.
        const bool product = operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
        if (!product && !is_forward(graph)) continue;
        const Descriptor& q = operation->child(product ? CUDNN_ATTR_OPERATION_MATMUL_ADESC
                                                       : CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC);
        return q.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)[3] % 8 == 0;
    }
    return false;
}

std::string name_of_attention(const Descriptor& graph) {
    return is_forward(graph) ? "attention forward" : "attention backward";
}

bool compute_attention(const Descriptor& graph, const Descriptor& pack) {
    Evaluation evaluation(pack);
    for (const auto& operation : operations_of(graph))
        if (!evaluation.run(*operation)) return false;
    return true;
}

}  // namespace tutti::fake_gpu
