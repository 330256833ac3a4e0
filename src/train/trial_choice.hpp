#pragma once
// Which of some trials is the fastest, from steps of all in turns. Pure.

#include <cstddef>
#include <span>
#include <vector>

namespace tutti {

/// Seconds of one trial's steps, round by round.
using TrialSeconds = std::vector<double>;

/// What the rounds until now say.
struct TrialStanding {
    std::vector<double> median;   ///< by trial, seconds
    std::size_t fastest = 0;      ///< by median
    std::vector<bool> contender;  ///< by trial: may be as fast as the fastest, the fastest included

    std::size_t contenders() const;
};

/// Compares by the differences between steps of the same round, which what disturbs the machine for longer
/// than a round disturbs alike. A trial is slower than the fastest one when the confidence interval of the
/// median difference lies above 0 (by order statistics, without an assumption on the distribution; at least
/// 93 %). A trial that has fewer rounds than the longest one was given up before and is no contender.
TrialStanding standing_of(std::span<const TrialSeconds> trials);

/// The fastest; of contenders that can be told apart from it neither by the intervals nor by 2 % of the
/// median, the one that comes first.
std::size_t choice_of(const TrialStanding& standing);

/// How many of the n sorted differences lie outside of the interval on either side.
std::size_t outside_of_interval(std::size_t n);

}  // namespace tutti
