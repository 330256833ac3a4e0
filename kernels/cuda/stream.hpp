#pragma once
// A CUDA stream without CUDA's headers.

struct CUstream_st;

namespace tutti::cuda {

/// cudaStream_t. Work in one stream is done in the order in which it was issued; calls return at once.
using Stream = CUstream_st*;

}  // namespace tutti::cuda
