#pragma once
// The entry points of libtutti_cuda.so, with C names: what the program looks up after it has opened the
// module.

namespace tutti {
class Bf16Transit;
class Device;
}  // namespace tutti

extern "C" {

/// cuda_module_interface of the program that this module was built with.
int tutti_cuda_interface();

/// GPU `index` as a device, owned by the caller. Throws tutti::Error.
tutti::Device* tutti_cuda_make_device(int index);

/// The stream (cudaStream_t) on which a device of tutti_cuda_make_device computes.
void* tutti_cuda_compute_stream(tutti::Device* device);

/// What sums of gradients as bf16 need of the current GPU, owned by the caller.
tutti::Bf16Transit* tutti_cuda_make_bf16_transit();

/// GPUs that this process may use; 0 without a driver.
int tutti_cuda_device_count();

/// Null where there is a GPU, else the reason why there is none (valid until the next call).
const char* tutti_cuda_why_no_gpu();

/// The name of GPU `index` (valid until the next call).
const char* tutti_cuda_device_name(int index);

/// What decides the bits of results of GPU `index`, for people (valid until the next call). Throws
/// tutti::Error.
const char* tutti_cuda_basis_of_bits(int index);

/// 1 when the module can run case `index` of kernel_cases(). Needs no GPU.
int tutti_cuda_knows_kernel(int index);

/// Times case `index`: `repetitions` runs, each with a cold second-level cache, after one that does not
/// count. seconds[repetitions] gets them. Null, or what went wrong (valid until the next call).
const char* tutti_cuda_time_kernel(int index, int repetitions, double* seconds);
}
