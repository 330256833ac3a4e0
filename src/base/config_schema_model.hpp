#pragma once
// The keys of `model`.

#include <vector>

#include "config_schema.hpp"

namespace tutti::config {

void add_model(std::vector<Row>& rows);

}  // namespace tutti::config
