#include <cmath>

#include "../common/softmax_math.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {

template <class T>
void EigenOps<T>::rank_labels(const TensorView& logits, const TensorView& labels, const TensorView& predicted,
                              const TensorView& place) {
    const std::int64_t rows = logits.shape[0], classes = logits.shape[1];
    assert(labels.count() == rows && predicted.count() == rows && place.count() == rows);
    const T* in = logits.as<T>();
    const std::int64_t* label = labels.as<std::int64_t>();
    std::int64_t* first = predicted.as<std::int64_t>();
    std::int64_t* before = place.as<std::int64_t>();
    for_ranges(
        rows,
        [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                assert(label[row] >= 0 && label[row] < classes);
                const T* x = in + row * classes;
                const T own = x[label[row]];
                std::int64_t maximum = 0, greater = 0;
                for (std::int64_t k = 0; k < classes; ++k) {
                    if (exceeds(x[k], x[maximum])) maximum = k;
                    greater += exceeds(x[k], own) || (k < label[row] && !exceeds(own, x[k]));
                }
                const bool says_nothing = !std::isfinite(x[maximum]);
                first[row] = says_nothing ? -1 : maximum;
                before[row] = says_nothing ? classes : greater;
            }
        },
        classes);
}

template void EigenOps<float>::rank_labels(const TensorView&, const TensorView&, const TensorView&,
                                           const TensorView&);
template void EigenOps<double>::rank_labels(const TensorView&, const TensorView&, const TensorView&,
                                            const TensorView&);

}  // namespace tutti
