#pragma once
// The module's entry points, with C names.

/// GPUs that this process may use; 0 without a driver.
extern "C" int tutti_cuda_device_count();
