#pragma once
// What a config will do: layers, memory, buckets.

#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

void inspect_config(const std::string& path, const std::vector<std::string>& overrides, std::int64_t world);

}  // namespace tutti
