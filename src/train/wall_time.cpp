#include "wall_time.hpp"

#include <algorithm>

#include "tutti/base/spread.hpp"

namespace tutti {
namespace {

constexpr double surcharge = 1.25;
constexpr double program_end = 0.5;  // seconds

}  // namespace

void WallTime::before_update(double now) {
    if (last_call_ >= 0) {
        updates_[next_] = std::max(now - last_call_ - between_, 0.0);
        next_ = (next_ + 1) % remembered;
        filled_ = std::min(filled_ + 1, remembered);
    }
    last_call_ = now;
    between_ = 0;
}

void WallTime::saved(double seconds) {
    checkpoint_ = std::max(checkpoint_, seconds);
    has_saved_ = true;
    between_ += seconds;
}

void WallTime::evaluated(double seconds) {
    evaluation_ = std::max(evaluation_, seconds);
    between_ += seconds;
}

double WallTime::median_update() const {
    if (filled_ == 0) return 0;
    return median({updates_.begin(), updates_.begin() + static_cast<std::ptrdiff_t>(filled_)});
}

double WallTime::needed(const Ahead& ahead) const {
    const double update = *std::ranges::max_element(updates_);
    double seconds = update + checkpoint_;
    if (ahead.evaluates)
        seconds += evaluation_ > 0 ? evaluation_ : ahead.updates_per_evaluation * median_update();
    if (ahead.saves) seconds += checkpoint_;
    if (!ahead.last) seconds += update;
    return surcharge * seconds + program_end;
}

}  // namespace tutti
