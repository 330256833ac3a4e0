#pragma once
// Private to comm and the CUDA module: what communication needs of CUDA. The names are C's, to be looked up
// in libtutti_cuda.so; the objects are the caller's to delete.

#include "gpu_side_stream.hpp"
#include "staged_communicator.hpp"

extern "C" {

/// The UUIDs of the GPUs that this process may use, in CUDA's order, one a line; valid until the next call.
/// Empty without a driver or a GPU.
const char* tutti_cuda_visible_gpus();

/// A side stream of the computing stream (cudaStream_t) on the current device. Null when CUDA refuses:
/// *problem (valid until the next call) then says why.
tutti::GpuSideStream* tutti_cuda_make_side_stream(tutti::GpuStream compute, const char** problem);

/// Pinned memory, and copies on a stream of their own that follows the computing stream. Null as above.
tutti::HostStaging* tutti_cuda_make_staging(tutti::GpuStream compute, const char** problem);
}
