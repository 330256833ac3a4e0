#pragma once
// What the config's device means.

#include "tutti/base/config.hpp"

namespace tutti {

/// What the config's device is: in deterministic mode `auto` is the CPU, so that no bit depends on whether
/// there are GPUs.
DeviceChoice choice_of(const Config& config);

}  // namespace tutti
