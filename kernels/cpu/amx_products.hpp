#pragma once
// Products in bf16 by the processor's matrix unit (AMX), where it has one: some ten times as many
// multiplications a second as its vectors do. Compiled for AMX whatever the rest is compiled for.

#include "bf16_tile.hpp"

namespace tutti {

/// Whether this processor has the unit and the system lets this process use it, which the first call asks for
/// (Linux, arch_prctl(ARCH_REQ_XCOMP_PERM), for all threads). Without it the function below must not be
/// called.
bool has_amx_products();

/// As multiply_bf16_pairs, which calls it. Sums have the order of the steps, 16 pairs at a time, those left
/// over first; they go on from what they are added to.
void multiply_amx_pairs(std::int64_t rows, std::int64_t columns, const PairRuns& runs, const Bf16Pair* left,
                        const Bf16Pair* right, const PairSums& to);

/// The same where left's runs begin left_at[run] pairs behind `left`, and columns are any multiple of
/// bf16_lanes. runs: of left_step 1; left_run is not read.
void multiply_amx_runs(std::int64_t rows, std::int64_t columns, const PairRuns& runs,
                       const std::int64_t* left_at, const Bf16Pair* left, const Bf16Pair* right,
                       const PairSums& to);

}  // namespace tutti
