// What a test asks of the fake module's GPUs: TUTTI_FAKE_GPUS says how many there are, else one; with
// TUTTI_FAKE_LATE all their streams are held back. TUTTI_FAKE_COUNT_FAILS is what the first question for
// their number is answered with; TUTTI_FAKE_UNLIKE_GPUS gives them different numbers of multiprocessors.
#include <cstdlib>
#include <set>

#include "fake_gpu.hpp"

namespace {

[[maybe_unused]] const bool asked = [] {
    if (const char* count = std::getenv("TUTTI_FAKE_GPUS"))
        tutti::fake_gpu::set_device_count(std::atoi(count));
    if (const char* code = std::getenv("TUTTI_FAKE_COUNT_FAILS"))
        tutti::fake_gpu::fail_next("cudaGetDeviceCount", std::atoi(code));
    if (std::getenv("TUTTI_FAKE_UNLIKE_GPUS")) tutti::fake_gpu::make_devices_unlike();
    if (std::getenv("TUTTI_FAKE_LATE")) {
        std::set<int> streams;
        for (int stream = 1; stream < 100; ++stream) streams.insert(stream);
        tutti::fake_gpu::hold_back(streams);
    }
    return true;
}();

}  // namespace
