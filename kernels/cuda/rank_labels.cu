#include "rank_labels.hpp"

#include <limits>

#include "../common/softmax_math.hpp"
#include "first_maximum.hpp"
#include "row_groups.hpp"
#include "storage.hpp"

namespace tutti::cuda {
namespace {

template <class T, class Group>
__global__ void __launch_bounds__(row_threads)
    rank_rows(const T* RESTRICT logits, const std::int64_t* RESTRICT labels, std::int64_t rows, int classes,
              std::int64_t* RESTRICT predicted, std::int64_t* RESTRICT place) {
    constexpr int threads = row_threads / Group::per_block;
    for (std::int64_t row = Group::first_row(); row < rows; row += Group::row_step()) {
        const T* x = logits + row * classes;
        const int label = static_cast<int>(labels[row]);
        const float own = to_float(x[label]);
        Candidate best = no_candidate;
        int before = 0;
        for (int k = Group::member(); k < classes; k += threads) {
            const float logit = to_float(x[k]);
            best = FirstMaximum{}(best, Candidate{logit, k});
            before += exceeds(logit, own) || (k < label && !exceeds(own, logit));
        }
        best = Group::reduce(best, no_candidate, FirstMaximum{});
        before = Group::sum(before);
        if (Group::member() == 0) {
            const bool says_nothing = !isfinite(best.logit);  // a NaN is the greatest
            predicted[row] = says_nothing ? -1 : best.place;
            place[row] = says_nothing ? classes : before;
        }
    }
}

}  // namespace

void rank_labels(const TensorView& logits, const TensorView& labels, const TensorView& predicted,
                 const TensorView& place, Stream stream) {
    const std::int64_t rows = logits.shape[0], classes = logits.shape[1];
    assert(labels.count() == rows && predicted.count() == rows && place.count() == rows);
    assert(classes <= std::numeric_limits<int>::max());
    with_storage(logits.dtype, [&]<class T>(Storage<T>) {
        with_row_group(classes, [&]<class Group>(Group) {
            launch("rank_labels", rank_rows<T, Group>, row_geometry(rows, Group::per_block), stream,
                   elements<const T>(logits), labels.as<std::int64_t>(), rows, static_cast<int>(classes),
                   predicted.as<std::int64_t>(), place.as<std::int64_t>());
        });
    });
}

}  // namespace tutti::cuda
