#include "tutti/model/loss.hpp"

#include <numeric>
#include <optional>

namespace tutti {
namespace {

/// What losses have in common: the memory of their sums, and waiting for them.
class LossOnDevice : public Loss {
  public:
    LossOnDevice(Device& device, DType compute)
        : device_(device),
          ops_(device.ops(compute)),
          memory_(device.allocate(3 * sizeof(double), "loss sums")) {}

    LossSums forward(const TensorView& outputs, const TensorView& wanted,
                     const TensorView& gradient) override {
        if (outputs.count() == 0) return {};
        issue_forward(outputs, wanted, gradient);
        double host[3];
        device_.copy_to_host(host, sums());
        return from_sums(host);
    }
    TensorView sums() const override { return memory_.view(0, DType::f64, {3}); }
    bool weight_is_sample_count() const override { return true; }

  protected:
    Device& device_;
    Ops& ops_;

  private:
    Buffer memory_;
};

class SoftmaxCrossEntropy final : public LossOnDevice {
  public:
    SoftmaxCrossEntropy(Device& device, DType compute, double label_smoothing,
                        std::span<const double> class_weights)
        : LossOnDevice(device, compute), target_(label_smoothing) {
        if (class_weights.empty()) return;
        weights_.emplace(device.allocate(class_weights.size_bytes(), "class weights"));
        const TensorView view =
            weights_->view(0, DType::f64, {static_cast<std::int64_t>(class_weights.size())});
        device.copy_from_host(view, class_weights.data());
        target_ = {label_smoothing, view, std::accumulate(class_weights.begin(), class_weights.end(), 0.0)};
    }

    void issue_forward(const TensorView& logits, const TensorView& labels,
                       const TensorView& gradient) override {
        ops_.softmax_cross_entropy_forward(logits, labels, gradient, sums(), target_);
    }
    void backward(const TensorView& labels, double scale, const TensorView& gradient) override {
        if (labels.count() == 0) return;
        ops_.softmax_cross_entropy_backward(gradient, labels, scale, gradient, target_);
    }

  private:
    std::optional<Buffer> weights_;
    CrossEntropyTarget target_;
};

/// `gradient` holds the differences until backward.
class Regression final : public LossOnDevice {
  public:
    Regression(Device& device, DType compute, RegressionLoss kind)
        : LossOnDevice(device, compute), kind_(kind) {}

    void issue_forward(const TensorView& outputs, const TensorView& targets,
                       const TensorView& gradient) override {
        ops_.regression_loss_forward(outputs, targets, kind_, gradient, sums());
    }
    void backward(const TensorView& targets, double scale, const TensorView& gradient) override {
        if (targets.count() == 0) return;
        ops_.regression_loss_backward(gradient, kind_, scale, gradient);
    }

  private:
    const RegressionLoss kind_;
};

/// `gradient` holds the differences until backward.
class Location final : public LossOnDevice {
  public:
    Location(Device& device, DType compute, const LocationLoss& loss)
        : LossOnDevice(device, compute), loss_(loss) {}

    void issue_forward(const TensorView& outputs, const TensorView& wanted,
                       const TensorView& gradient) override {
        ops_.location_loss_forward(outputs, wanted, loss_, gradient, sums());
    }
    void backward(const TensorView& wanted, double scale, const TensorView& gradient) override {
        if (wanted.count() == 0) return;
        ops_.location_loss_backward(gradient, loss_, scale, gradient);
    }

  private:
    const LocationLoss loss_;
};

/// `gradient` holds that of each sample's loss until backward.
class Segments final : public LossOnDevice {
  public:
    Segments(Device& device, DType compute, const SegmentLoss& loss)
        : LossOnDevice(device, compute), loss_(loss) {}

    void issue_forward(const TensorView& outputs, const TensorView& wanted,
                       const TensorView& gradient) override {
        ops_.segment_loss_forward(outputs, wanted, loss_, gradient, sums());
    }
    void backward(const TensorView& wanted, double scale, const TensorView& gradient) override {
        if (wanted.count() == 0) return;
        ops_.segment_loss_backward(gradient, scale, gradient);
    }

  private:
    const SegmentLoss loss_;
};

/// Regression of outputs whose targets are all 0.
class MeanSquare final : public LossOnDevice {
  public:
    using LossOnDevice::LossOnDevice;
    void issue_forward(const TensorView& outputs, const TensorView&, const TensorView& gradient) override {
        ops_.regression_loss_forward(outputs, {}, RegressionLoss::squared, gradient, sums());
    }
    void backward(const TensorView&, double scale, const TensorView& gradient) override {
        if (gradient.count() == 0) return;
        ops_.regression_loss_backward(gradient, RegressionLoss::squared, scale, gradient);
    }
};

}  // namespace

std::unique_ptr<Loss> make_softmax_cross_entropy(Device& device, DType compute, double label_smoothing,
                                                 std::span<const double> class_weights) {
    return std::make_unique<SoftmaxCrossEntropy>(device, compute, label_smoothing, class_weights);
}

std::unique_ptr<Loss> make_regression_loss(Device& device, DType compute, RegressionLoss kind) {
    return std::make_unique<Regression>(device, compute, kind);
}

std::unique_ptr<Loss> make_location_loss(Device& device, DType compute, const LocationLoss& loss) {
    return std::make_unique<Location>(device, compute, loss);
}

std::unique_ptr<Loss> make_segment_loss(Device& device, DType compute, const SegmentLoss& loss) {
    return std::make_unique<Segments>(device, compute, loss);
}

std::unique_ptr<Loss> make_mean_square_loss(Device& device, DType compute) {
    return std::make_unique<MeanSquare>(device, compute);
}

}  // namespace tutti
