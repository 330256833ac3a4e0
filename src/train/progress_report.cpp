#include "progress_report.hpp"

#include <fmt/format.h>

#include "tutti/base/units.hpp"

namespace tutti {
namespace {
constexpr double terminal_seconds = 0.2;
constexpr double plain_seconds = 10.0;
}  // namespace

void ProgressReport::start(std::int64_t samples, Clock::time_point now) {
    begin_ = shown_ = now;
    shown_samples_ = samples;
    begin_step_ = -1;
}

void ProgressReport::update(std::int64_t step, std::int64_t total_steps, std::int64_t epoch,
                            std::int64_t epochs, std::int64_t samples, double loss, Clock::time_point now) {
    const auto seconds = [&](Clock::time_point since) {
        return std::chrono::duration<double>(now - since).count();
    };
    if (begin_step_ < 0) begin_step_ = step - 1;
    const double since_shown = seconds(shown_);
    if (since_shown < (log_.shows_progress() ? terminal_seconds : plain_seconds)) return;

    const double rate = static_cast<double>(samples - shown_samples_) / since_shown;
    const double left =
        seconds(begin_) / static_cast<double>(step - begin_step_) * static_cast<double>(total_steps - step);
    const std::string text =
        fmt::format("epoch {}/{}  step {}/{}  {:.0f} samples/s  loss {}  {} left", epoch + 1, epochs, step,
                    total_steps, rate, format_number(loss), format_duration(left));
    if (log_.shows_progress())
        log_.progress(text);
    else
        log_.info(text);
    shown_ = now;
    shown_samples_ = samples;
}

}  // namespace tutti
