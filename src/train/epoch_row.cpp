#include "epoch_row.hpp"

#include <fmt/format.h>

#include <cmath>

namespace tutti {

std::string epoch_row(const EpochSummary& summary) {
    std::string row = fmt::format(R"({{"epoch": {}, "step": {}, "samples": {}, "train_loss": )",
                                  summary.epoch, summary.step, summary.samples);
    row += std::isfinite(summary.loss) ? fmt::format("{:.17g}", summary.loss) : "null";
    if (summary.accuracy) row += fmt::format(R"(, "train_accuracy": {:.17g})", *summary.accuracy);
    if (summary.skipped > 0) row += fmt::format(R"(, "skipped": {})", summary.skipped);
    if (summary.unreadable > 0) row += fmt::format(R"(, "unreadable": {})", summary.unreadable);
    return row + fmt::format(R"(, "seconds": {:.6f}, "time": {:.3f}}})", summary.seconds, summary.time);
}

}  // namespace tutti
