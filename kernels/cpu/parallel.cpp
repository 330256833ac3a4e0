#include "parallel.hpp"

namespace tutti {

void run_together(int callers, void (*call)(const void* body, int caller, int there), const void* body) {
#pragma omp parallel num_threads(callers)
    {
        const OneThread alone;
        call(body, omp_get_thread_num(), omp_get_num_threads());
    }
}

}  // namespace tutti
