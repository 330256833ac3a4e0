#pragma once
// The keys of single sections.

#include <vector>

#include "config_schema.hpp"

namespace tutti::config {

void add_model(std::vector<Row>& rows);
void add_schedule(std::vector<Row>& rows);

}  // namespace tutti::config
