#pragma once
// Updates that train.nan_policy: skip has left out one after the other.

#include <cstdint>
#include <string>

namespace tutti {

/// Of a run without end: where that many batches in turn give no finite gradient, the weights do, for every
/// batch, or the data. An update without any sample that could be read neither belongs to a series nor ends
/// it. Ranks that add what they know in common (the step's sums, the norm of the summed gradient) find the
/// same end.
class SkippedSeries {
  public:
    static constexpr std::int64_t longest = 100;

    struct Update {
        std::int64_t epoch = 0;           ///< from 0
        std::int64_t begin = 0, end = 0;  ///< positions [begin, end) of the epoch
        std::string reason;               ///< "the loss is nan"
    };
    void add(Update update);
    /// An update was made.
    void end() { count_ = 0; }

    bool empty() const { return count_ == 0; }
    /// From the update on that makes it `longest`; the run is to end.
    bool is_too_long() const { return count_ >= longest; }
    /// "100 updates one after the other were skipped …", with the first and the last of them.
    std::string describe() const;

  private:
    Update first_, last_;
    std::int64_t count_ = 0;
};

/// "epoch 3, samples 16 to 31".
std::string place_of(const SkippedSeries::Update& update);

}  // namespace tutti
