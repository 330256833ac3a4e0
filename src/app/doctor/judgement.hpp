#pragma once
// From facts to problems: pure, so that every problem has a table test.

#include <string>
#include <vector>

#include "facts.hpp"

namespace tutti::doctor {

struct Problem {
    std::string name;  ///< stable, for scripts: "several-ranks-on-one-gpu"
    std::string what;  ///< with ranks and hosts
    std::string fix;
};

/// Problems in the order of their weight; none for a healthy job.
std::vector<Problem> judge(const JobFacts& job);

/// What a healthy job may still do better; may be meant as it is.
std::vector<Problem> hints(const JobFacts& job);

}  // namespace tutti::doctor
