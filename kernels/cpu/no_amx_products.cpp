// Where the compiler knows no AMX: nobody calls what has_amx_products denies.

#include <cstdlib>

#include "amx_products.hpp"

namespace tutti {

bool has_amx_products() {
    return false;
}
void multiply_amx_pairs(std::int64_t, std::int64_t, const PairRuns&, const Bf16Pair*, const Bf16Pair*,
                        const PairSums&) {
    std::abort();
}
void multiply_amx_runs(std::int64_t, std::int64_t, const PairRuns&, const std::int64_t*, const Bf16Pair*,
                       const Bf16Pair*, const PairSums&) {
    std::abort();
}

}  // namespace tutti
