#include "tutti/base/device_choice.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(DeviceChoice, leaves_nothing_to_what_is_there_in_deterministic_mode) {
    Config config;
    for (const DeviceChoice choice : {DeviceChoice::automatic, DeviceChoice::cpu, DeviceChoice::cuda}) {
        config.device = choice;
        config.run.deterministic = false;
        EXPECT_EQ(choice_of(config), choice);
        config.run.deterministic = true;
        EXPECT_EQ(choice_of(config), choice == DeviceChoice::automatic ? DeviceChoice::cpu : choice);
    }
}

}  // namespace
}  // namespace tutti
