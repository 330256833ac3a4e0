#include "select.hpp"

#include "tutti/base/error.hpp"

namespace tutti {

std::unique_ptr<Device> select_device(DeviceChoice choice, int threads) {
    if (choice == DeviceChoice::cuda)
        throw UsageError("device is cuda, but this version computes on the CPU only",
                         "set device: auto or cpu");
    return make_cpu_device(threads);
}

}  // namespace tutti
