#include "version_report.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "provenance.hpp"
#include "tutti/comm/gloo.hpp"
#include "tutti/comm/mpi_session.hpp"
#include "tutti/device/cuda_module.hpp"
#include "tutti/device/device.hpp"
#include "version.h"

namespace tutti {

std::string version_report() {
    std::error_code none;
    const bool has_module = std::filesystem::exists(cuda_module_path(), none);
    return fmt::format("tutti {}\ncommit: {}\nMPI: {}\nHDF5: {}\nCPU: {}\ngloo: {}\nCUDA module: {}\n",
                       TUTTI_VERSION, TUTTI_COMMIT, MpiSession::library_version(), hdf5_version(),
                       cpu_arithmetic(), gloo_absence().empty() ? "built in" : "none",
                       has_module
                           ? cuda_module_path()
                           : "none: built without CUDA, or libtutti_cuda.so is not beside the program");
}

}  // namespace tutti
