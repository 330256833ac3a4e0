#include "tutti/base/device_choice.hpp"

namespace tutti {

DeviceChoice choice_of(const Config& config) {
    const bool settled = config.run.deterministic && config.device == DeviceChoice::automatic;
    return settled ? DeviceChoice::cpu : config.device;
}

}  // namespace tutti
