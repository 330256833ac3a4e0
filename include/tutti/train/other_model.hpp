#pragma once
// Weights of another model than the one that is to take them: in which settings it differs.

#include <string>

#include "tutti/base/config.hpp"

namespace tutti {

/// "model.hidden is [512, 512] there and [1024, 1024] here: ", to begin a message with; the first settings of
/// many. Empty where `file` is no checkpoint, which alone knows its config, or where nothing in model.*
/// differs (classes and channels may follow from the data). Reads the file's config; throws nothing.
std::string other_model(const std::string& file, const Config& here);

}  // namespace tutti
