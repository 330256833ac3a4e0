#pragma once
// In which settings of their models two configurations differ.

#include <string>
#include <vector>

#include "tutti/base/config.hpp"

namespace tutti {

/// model.*, but for what the weights begin with and which of them are frozen, in the order of the reference:
/// "model.hidden is [512, 512] there and [1024, 1024] here". Pure.
std::vector<std::string> model_differences(const Config& there, const Config& here);

}  // namespace tutti
