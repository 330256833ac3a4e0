#include "tutti/device/openmp_places.hpp"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <vector>

namespace tutti {

void run_on_all_places() {
    std::vector<int> cores;
    for (int place = 0; place < omp_get_num_places(); ++place) {
        const int count = omp_get_place_num_procs(place);
        if (count < 1) continue;
        const auto before = static_cast<std::ptrdiff_t>(cores.size());
        cores.resize(cores.size() + static_cast<std::size_t>(count));
        omp_get_place_proc_ids(place, cores.data() + before);
    }
    if (cores.empty()) return;
    const auto most = static_cast<std::size_t>(*std::max_element(cores.begin(), cores.end())) + 1;
    cpu_set_t* const set = CPU_ALLOC(most);
    if (set == nullptr) return;
    const std::size_t bytes = CPU_ALLOC_SIZE(most);
    CPU_ZERO_S(bytes, set);
    for (const int core : cores) CPU_SET_S(static_cast<std::size_t>(core), bytes, set);
    // Refused, it stays on its first place: slower, and no reason to stop.
    static_cast<void>(sched_setaffinity(0, bytes, set));
    CPU_FREE(set);
}

}  // namespace tutti
