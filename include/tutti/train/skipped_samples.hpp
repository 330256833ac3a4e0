#pragma once
// Samples that could not be read and that batches went without (data.on_error: skip).

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tutti/base/error.hpp"
#include "tutti/base/log.hpp"
#include "tutti/comm/communicator.hpp"
#include "tutti/input/loader.hpp"

namespace tutti {

/// One rank's. The ranks tell each other what they met, so that rank 0 logs the first of them, each once in a
/// run. Further ones are only counted.
class SkippedSamples {
  public:
    static constexpr std::size_t named = 20;

    void add(std::span<const SkippedSample> samples);

    /// Those since the last call.
    std::int64_t take_count();

    /// Collective: rank 0 warns of each sample that it has not heard of before, until it has named `named`.
    /// From then on nothing is sent. Where no rank has skipped anything it need not be called; all ranks must
    /// know that.
    void tell(Communicator& communicator, Log& log);

    /// More than half of `samples` could not be read: the data are not what they should be. Throws
    /// AgreedError (data) when `skipped` is more; the arguments must be the same on all ranks.
    static void check_share(std::int64_t skipped, std::int64_t samples, const std::string& data);

  private:
    std::set<std::int64_t> known_;  // samples that this rank has met, as long as any are still to be named
    std::set<std::string> told_;    // the same on all ranks: a sample moves between them from epoch to epoch
    std::vector<std::string> new_reasons_;
    std::int64_t count_ = 0;
};

/// Why the samples of a batch could not be read, with data.on_error: skip among the remedies of data that
/// stopped it.
Failure reading_failure(const Error& error);

}  // namespace tutti
