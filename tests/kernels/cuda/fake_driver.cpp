// A libcuda.so.1 with no GPU behind it, beside which cuDNN compiles engines for a GPU that is only described:
// it finds all the functions that it looks for, and the code that it compiled can be "loaded". Nothing can be
// run: cuInit finds no device. (A real driver's functions have parameters, which these leave alone.)

#define TUTTI_ACCEPTS(function) \
    int function() {            \
        return 0;               \
    }

extern "C" {

int cuInit() {
    return 100;  // CUDA_ERROR_NO_DEVICE
}
int cuDriverGetVersion(int* version) {
    *version = 13000;
    return 0;
}
// The handles are compared with null, and given back.
int cuLibraryLoadData(void** library) {
    static int loaded;
    *library = &loaded;
    return 0;
}
int cuLibraryGetKernel(void** kernel) {
    static int found;
    *kernel = &found;
    return 0;
}
TUTTI_ACCEPTS(cuLibraryUnload)
TUTTI_ACCEPTS(cuLibraryLoadFromFile)
TUTTI_ACCEPTS(cuKernelGetAttribute)
TUTTI_ACCEPTS(cuKernelSetAttribute)
TUTTI_ACCEPTS(cuKernelGetFunction)
TUTTI_ACCEPTS(cuFuncGetAttribute)
TUTTI_ACCEPTS(cuFuncSetAttribute)
TUTTI_ACCEPTS(cuModuleLoadData)
TUTTI_ACCEPTS(cuModuleLoadDataEx)
TUTTI_ACCEPTS(cuModuleLoadFatBinary)
TUTTI_ACCEPTS(cuModuleGetFunction)
TUTTI_ACCEPTS(cuModuleGetGlobal_v2)
TUTTI_ACCEPTS(cuModuleUnload)
TUTTI_ACCEPTS(cuLinkCreate)
TUTTI_ACCEPTS(cuLinkCreate_v2)
TUTTI_ACCEPTS(cuLinkAddData)
TUTTI_ACCEPTS(cuLinkAddData_v2)
TUTTI_ACCEPTS(cuLinkAddFile_v2)
TUTTI_ACCEPTS(cuLinkComplete)
TUTTI_ACCEPTS(cuLinkDestroy)
TUTTI_ACCEPTS(cuLaunchKernel)
TUTTI_ACCEPTS(cuLaunchKernelEx)
TUTTI_ACCEPTS(cuLaunchCooperativeKernel)
TUTTI_ACCEPTS(cuTensorMapEncodeTiled)
TUTTI_ACCEPTS(cuMemcpyDtoH_v2)
TUTTI_ACCEPTS(cuStreamGetCtx)
TUTTI_ACCEPTS(cuStreamSynchronize)
TUTTI_ACCEPTS(cuOccupancyMaxActiveBlocksPerMultiprocessor)
TUTTI_ACCEPTS(cuOccupancyMaxPotentialClusterSize)
TUTTI_ACCEPTS(cuCtxGetCurrent)
TUTTI_ACCEPTS(cuCtxGetDevice)
TUTTI_ACCEPTS(cuCtxGetLimit)
TUTTI_ACCEPTS(cuCtxPopCurrent)
TUTTI_ACCEPTS(cuCtxPushCurrent)
TUTTI_ACCEPTS(cuDeviceGet)
TUTTI_ACCEPTS(cuDeviceGetAttribute)
TUTTI_ACCEPTS(cuDeviceGetCount)
TUTTI_ACCEPTS(cuDevicePrimaryCtxRelease)
TUTTI_ACCEPTS(cuDevicePrimaryCtxReset)
TUTTI_ACCEPTS(cuDevicePrimaryCtxRetain)
TUTTI_ACCEPTS(cuGetErrorName)
TUTTI_ACCEPTS(cuGetErrorString)

}  // extern "C"
