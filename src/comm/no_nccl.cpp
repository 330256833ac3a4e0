// The absent twin of nccl_library.cpp.
#include "nccl_api.hpp"
#include "tutti/base/error.hpp"

namespace tutti {

std::unique_ptr<NcclApi> open_nccl() {
    throw RunError("this program was built without NCCL (nccl.h was not found)",
                   "install NCCL and build again, or set distributed.backend: mpi");
}

}  // namespace tutti
