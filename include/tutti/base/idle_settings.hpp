#pragma once
// Settings that others make idle.

#include <string>
#include <vector>

namespace tutti {

struct Config;

/// A warning for each group of settings that are not what they are by default and change nothing, because of
/// another setting: "schedule.warmup_lr has no effect without schedule.warmup_epochs". One, too, where early
/// stopping may end a run before any checkpoint counts as the best. Pure.
std::vector<std::string> idle_settings(const Config& config);

}  // namespace tutti
