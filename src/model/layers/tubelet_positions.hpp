#pragma once
// Where the tokens of a clip are.

#include <vector>

#include "tutti/model/layers_transformer.hpp"

namespace tutti {

/// UsageErrors name model.frames, model.tubelet and model.patch.
void check_tubelets(const Shape& clip, const Tubelet& tubelet);

/// [T, width], the sines and cosines of make_tubelet_positions, in the order of make_tubelets.
std::vector<double> tubelet_position_table(const Shape& clip, const Tubelet& tubelet, std::int64_t width);

}  // namespace tutti
