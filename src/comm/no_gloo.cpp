// The absent twin of gloo_*.cpp: Meson takes it where libgloo is not installed.

#include "gloo_mesh.hpp"
#include "tutti/comm/gloo.hpp"

namespace tutti {

class GlooMesh {};

std::string gloo_absence() {
    return "this program was built without gloo";
}

std::shared_ptr<GlooMesh> connect_gloo(const GlooPlace&, const Exchange&, double,
                                       const std::function<PeerWatch()>&) {
    throw LaunchMismatch(gloo_absence() + ", so ranks cannot communicate without MPI",
                         "install libgloo-dev and build again, or start it with mpirun or srun --mpi=pmix");
}

std::unique_ptr<Communicator> make_gloo_communicator(std::shared_ptr<GlooMesh>, double, Session::Notice) {
    throw LaunchError(gloo_absence());
}

std::unique_ptr<Communicator> make_gloo_communicator(Communicator&, const std::string&, double,
                                                     Session::Notice) {
    throw UsageError(gloo_absence(), "set distributed.backend: auto, or install libgloo-dev and build again");
}

}  // namespace tutti
