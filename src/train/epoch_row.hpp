#pragma once
// Private to train: a line of epochs.jsonl.

#include <cstdint>
#include <optional>
#include <string>

namespace tutti {

/// Of an epoch that has ended; `epoch` counts from 1.
struct EpochSummary {
    std::int64_t epoch = 0, step = 0, samples = 0;
    double loss = 0;                      ///< mean over the samples that counted; NaN: none did
    std::optional<double> accuracy = {};  ///< of classes
    std::int64_t skipped = 0;             ///< updates left out since the beginning of the run
    std::int64_t unreadable = 0;          ///< samples of the epoch
    double seconds = 0;                   ///< since the epoch began, or went on in this process
    double time = 0;                      ///< seconds since 1970
};

/// One line of JSON, without the newline. Pure.
std::string epoch_row(const EpochSummary& summary);

}  // namespace tutti
