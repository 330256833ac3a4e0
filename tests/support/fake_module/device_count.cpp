// How many GPUs the fake module shows: TUTTI_FAKE_GPUS, else one.
#include <cstdlib>

#include "fake_gpu.hpp"

namespace {

[[maybe_unused]] const bool counted = [] {
    if (const char* count = std::getenv("TUTTI_FAKE_GPUS"))
        tutti::fake_gpu::set_device_count(std::atoi(count));
    return true;
}();

}  // namespace
