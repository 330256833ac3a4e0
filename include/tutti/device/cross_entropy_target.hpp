#pragma once
// What softmax cross-entropy compares the probabilities of a sample with.

#include "tutti/device/tensor_view.hpp"

namespace tutti {

/// q = (1 − label_smoothing)·onehot(label) + label_smoothing/K, and w, what each class counts:
/// torch.nn.functional.cross_entropy(weight=w, label_smoothing=s, reduction='sum').
struct CrossEntropyTarget {
    double label_smoothing = 0;  ///< in [0, 1]
    /// w: f64[K], none negative, in the device's memory, owned by others. Undefined: each class counts 1.
    TensorView class_weights;
    double weight_sum = 0;  ///< of class_weights

    // Most are of a smoothing alone.
    CrossEntropyTarget(double smoothing = 0, const TensorView& weights = {}, double sum_of_weights = 0)
        : label_smoothing(smoothing), class_weights(weights), weight_sum(sum_of_weights) {}
};

}  // namespace tutti
