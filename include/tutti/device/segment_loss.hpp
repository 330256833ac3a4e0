#pragma once
// The loss of a model that says of each second of a sequence whether it is inside of a segment, and where
// that begins and ends.

namespace tutti {

/// Of a sample the outputs are [S, 4], of second t: z, the logit of being inside; l ≥ 0 and r ≥ 0, how many
/// seconds before and behind t its segment begins and ends; and m, which is not 0 for the first seconds,
/// those that exist, and 0 for padding behind them, of which nothing plays a part. Wanted are [S, 2]: the
/// offsets (a, b) of an inside second, both ≥ 0, or a < 0 outside. With c = 1 inside, else 0, p = sigmoid(z),
/// q = c ? p : 1 − p and α' = c ? alpha : 1 − alpha the loss is
///   class_weight · mean over existing seconds of −α'·(1 − q)^gamma·log q
///   + offset_weight · mean over existing inside seconds of 1 − IoU + (d / h)².
/// The first is the focal loss (Lin et al. 2017, "Focal Loss for Dense Object Detection"), the second that of
/// the distance of centres (Zheng et al. 2020, "Distance-IoU Loss") in one dimension: with
/// i = min(l, a) + min(r, b) IoU = i / (l + r + a + b − i), d = ((r − l) − (b − a)) / 2 and h = max(l, a) +
/// max(r, b), each divisor at least 1e-6 and constant below that, as by torch.clamp. A mean over nothing is
/// 0. Where the two of a min or max are equal, each has half of the gradient, as by torch.minimum.
struct SegmentLoss {
    double alpha = 0.7, gamma = 2;  ///< alpha in [0, 1], gamma ≥ 0
    double class_weight = 0.2, offset_weight = 0.8;
};

}  // namespace tutti
