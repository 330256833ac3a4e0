#include "trial_choice.hpp"

#include <algorithm>
#include <cassert>

#include "tutti/base/spread.hpp"

namespace tutti {

std::size_t TrialStanding::contenders() const {
    return static_cast<std::size_t>(std::ranges::count(contender, true));
}

std::size_t outside_of_interval(std::size_t n) {
    // The largest k with 2 · P(Binomial(n, 1/2) ≤ k − 1) ≤ 7 %.
    constexpr double outside = 0.07;
    double term = 1;  // P(Binomial = 0)
    for (std::size_t i = 0; i < n; ++i) term /= 2;
    double sum = term;
    std::size_t k = 0;
    while (k < n / 2 && 2 * sum <= outside) {
        ++k;
        term *= static_cast<double>(n - k + 1) / static_cast<double>(k);
        sum += term;
    }
    return k;
}

TrialStanding standing_of(std::span<const TrialSeconds> trials) {
    assert(!trials.empty());
    TrialStanding standing;
    std::size_t rounds = 0;
    for (const TrialSeconds& trial : trials) rounds = std::max(rounds, trial.size());
    const auto took_part = [&](std::size_t t) { return trials[t].size() == rounds; };
    for (const TrialSeconds& trial : trials) standing.median.push_back(trial.empty() ? 0 : median(trial));
    standing.fastest = trials.size();
    for (std::size_t t = 0; t < trials.size(); ++t)
        if (took_part(t) &&
            (standing.fastest == trials.size() || standing.median[t] < standing.median[standing.fastest]))
            standing.fastest = t;

    const std::size_t outside = outside_of_interval(rounds);
    for (std::size_t t = 0; t < trials.size(); ++t) {
        if (!took_part(t) || t == standing.fastest) {
            standing.contender.push_back(t == standing.fastest);
            continue;
        }
        std::vector<double> slower(rounds);
        for (std::size_t r = 0; r < rounds; ++r) slower[r] = trials[t][r] - trials[standing.fastest][r];
        std::ranges::sort(slower);
        // With too few rounds there is no interval, and nobody is given up.
        standing.contender.push_back(outside == 0 || slower[outside - 1] <= 0);
    }
    return standing;
}

std::size_t choice_of(const TrialStanding& standing) {
    constexpr double alike = 1.02;
    for (std::size_t t = 0; t < standing.contender.size(); ++t)
        if (standing.contender[t] && standing.median[t] <= alike * standing.median[standing.fastest])
            return t;
    return standing.fastest;
}

}  // namespace tutti
