#include "tutti/model/loss.hpp"

namespace tutti {
namespace {

class SoftmaxCrossEntropy final : public Loss {
  public:
    SoftmaxCrossEntropy(Device& device, DType compute, double label_smoothing)
        : label_smoothing_(label_smoothing),
          device_(device),
          ops_(device.ops(compute)),
          memory_(device.allocate(3 * sizeof(double), "loss sums")) {}

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
        ops_.softmax_cross_entropy_forward(logits, labels, gradient, sums(), label_smoothing_);
    }
    TensorView sums() const override { return memory_.view(0, DType::f64, {3}); }
    void backward(const TensorView& labels, double scale, const TensorView& gradient) override {
        if (labels.count() == 0) return;
        ops_.softmax_cross_entropy_backward(gradient, labels, scale, gradient, label_smoothing_);
    }
    bool weight_is_sample_count() const override { return true; }

  private:
    const double label_smoothing_;
    Device& device_;
    Ops& ops_;
    Buffer memory_;
};

}  // namespace

std::unique_ptr<Loss> make_softmax_cross_entropy(Device& device, DType compute, double label_smoothing) {
    return std::make_unique<SoftmaxCrossEntropy>(device, compute, label_smoothing);
}

}  // namespace tutti
