#pragma once
// The doctor's findings for people and for scripts.

#include <string>
#include <vector>

#include "judgement.hpp"

namespace tutti::doctor {

/// The table, the self-check, each problem with its fix, and hints.
std::string text_report(const JobFacts& job, const std::vector<Problem>& problems,
                        const std::vector<Problem>& hints = {});

/// One object: healthy, launcher, ranks, all_reduce, gpus, problems, hints.
std::string json_report(const JobFacts& job, const std::vector<Problem>& problems,
                        const std::vector<Problem>& hints = {});

/// "0-3,8" for 0, 1, 2, 3, 8.
std::string ranges(const std::vector<int>& numbers);

/// Bytes per second that every link had to carry: bytes / seconds · 2(R − 1)/R (nccl-tests,
/// doc/PERFORMANCE.md).
double bus_bandwidth(const AllReduceFacts& facts, std::size_t ranks);

}  // namespace tutti::doctor
