#include "tutti/model/loss.hpp"

#include <numeric>
#include <optional>

namespace tutti {
namespace {

class SoftmaxCrossEntropy final : public Loss {
  public:
    SoftmaxCrossEntropy(Device& device, DType compute, double label_smoothing,
                        std::span<const double> class_weights)
        : device_(device),
          ops_(device.ops(compute)),
          memory_(device.allocate(3 * sizeof(double), "loss sums")),
          target_(label_smoothing) {
        if (class_weights.empty()) return;
        weights_.emplace(device.allocate(class_weights.size_bytes(), "class weights"));
        const TensorView view =
            weights_->view(0, DType::f64, {static_cast<std::int64_t>(class_weights.size())});
        device.copy_from_host(view, class_weights.data());
        target_ = {label_smoothing, view, std::accumulate(class_weights.begin(), class_weights.end(), 0.0)};
    }

    LossSums forward(const TensorView& logits, const TensorView& labels,
                     const TensorView& gradient) override {
        if (labels.count() == 0) return {};
        issue_forward(logits, labels, gradient);
        double host[3];
        device_.copy_to_host(host, sums());
        return from_sums(host);
    }
    void issue_forward(const TensorView& logits, const TensorView& labels,
                       const TensorView& gradient) override {
        ops_.softmax_cross_entropy_forward(logits, labels, gradient, sums(), target_);
    }
    TensorView sums() const override { return memory_.view(0, DType::f64, {3}); }
    void backward(const TensorView& labels, double scale, const TensorView& gradient) override {
        if (labels.count() == 0) return;
        ops_.softmax_cross_entropy_backward(gradient, labels, scale, gradient, target_);
    }
    bool weight_is_sample_count() const override { return true; }

  private:
    Device& device_;
    Ops& ops_;
    Buffer memory_;
    std::optional<Buffer> weights_;
    CrossEntropyTarget target_;
};

}  // namespace

std::unique_ptr<Loss> make_softmax_cross_entropy(Device& device, DType compute, double label_smoothing,
                                                 std::span<const double> class_weights) {
    return std::make_unique<SoftmaxCrossEntropy>(device, compute, label_smoothing, class_weights);
}

}  // namespace tutti
