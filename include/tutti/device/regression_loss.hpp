#pragma once
// How far an output may be from its target.

namespace tutti {

/// l(d) of d = output − target.
enum class RegressionLoss {
    squared,   ///< d², torch.nn.MSELoss
    absolute,  ///< |d|, torch.nn.L1Loss
    /// d²/2 where |d| < 1, else |d| − 1/2 (Huber 1964, "Robust Estimation of a Location Parameter", with
    /// δ = 1): torch.nn.HuberLoss, and torch.nn.SmoothL1Loss
    huber,
};

}  // namespace tutti
