#include "process_tree.hpp"

#include <fstream>
#include <set>
#include <sstream>

#include "tutti/comm/launch.hpp"

namespace tutti {
namespace {

bool is_of(Launcher launcher, const std::string& name) {
    switch (launcher) {
        case Launcher::mpirun:
            return starts_ranks(name);
        case Launcher::mpiexec_hydra:
            return name == "hydra_pmi_proxy" || name.starts_with("mpiexec") || name.starts_with("mpirun");
        case Launcher::srun:
            return name == "slurmstepd";
        case Launcher::torchrun:  // a script of Python's, which names its process as it likes
            return name == "torchrun" || name.starts_with("python") || name.starts_with("pt_");
        case Launcher::plain:
        case Launcher::by_hand:
            break;
    }
    return false;
}

}  // namespace

Process look_at(const std::filesystem::path& proc, int process) {
    std::ifstream file(proc / std::to_string(process) / "stat");
    std::string line;
    std::getline(file, line);
    // The name, in brackets, may hold anything, brackets too; state and parent follow it.
    const auto open = line.find('('), close = line.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close < open) return {};
    Process result;
    result.name = line.substr(open + 1, close - open - 1);
    std::istringstream(line.substr(close + 1)) >> result.state >> result.parent;
    return result;
}

bool starts_ranks(const std::string& name) {
    static const std::set<std::string> launchers = {"mpirun", "mpiexec", "orterun",
                                                    "orted",  "prterun", "prted"};
    return launchers.contains(name);
}

int process_above(Launcher launcher, const std::filesystem::path& proc) {
    std::ifstream self(proc / "self/stat");
    int own = 0;
    self >> own;
    // Parents are older, but numbers may wrap around: a chain that changes meanwhile must end, too.
    constexpr int longest = 1000;
    int process = look_at(proc, own).parent;
    for (int step = 0; process > 0 && step < longest; ++step) {
        const Process above = look_at(proc, process);
        if (is_of(launcher, above.name)) return process;
        process = above.parent;
    }
    return 0;
}

bool runs_below(Launcher launcher, const std::filesystem::path& proc) {
    return process_above(launcher, proc) != 0;
}

}  // namespace tutti
