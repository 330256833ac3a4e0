#pragma once
// The loss of a model that says whether there is one thing in an image, and where.

#include <cstdint>

namespace tutti {

/// Of a sample the outputs are [H, W, 2]. Channel 0 is a heat map o, of which the cell (i, j) stands for the
/// pixel x = stride·j, y = stride·i of the image; the mean of channel 1 over all cells is the logit z that
/// the thing is there. Wanted are {presence, x, y}: there where presence is above 1/2, and then at (x, y), in
/// pixels, which may lie between pixels and outside of the image. With c = 1 where it is there, else 0, and
///   t(i, j) = exp(−((stride·j − x)² + (stride·i − y)²) / (2·sigma²)), of an absent thing absent_heat
/// the loss is heat_map_weight · mean over cells of (o − t)² + presence_weight · (log(1 + eᶻ) − c·z), the
/// last torch.nn.BCEWithLogitsLoss. (Heat maps of unnormalised Gaussians: Tompson et al. 2014, "Joint
/// Training of a Convolutional Network and a Graphical Model for Human Pose Estimation", section 3.)
struct LocationLoss {
    std::int64_t stride = 4;  ///< pixels from cell to cell
    double sigma = 8;         ///< pixels, above 0
    double heat_map_weight = 100, presence_weight = 1;
    /// The mean of what others draw from [0, 0.01] for each cell: the gradient is then theirs in the mean.
    static constexpr double absent_heat = 0.005;
};

}  // namespace tutti
