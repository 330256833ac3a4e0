#pragma once
// Reads the batches of an epoch ahead of the step that needs them.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/device/device.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/input/sampler.hpp"

namespace tutti {

/// A sample that its batch goes without.
struct SkippedSample {
    std::int64_t index = 0;  ///< in the data set
    std::string reason;      ///< what reading it threw: file, sample, cause
};

/// One rank's batch in host memory. Views stay valid until the batch is given back: at the next call of
/// next(), or at the one after it where the loader was made for a device that copies ahead.
struct HostBatch {
    BatchWindow window;                    ///< count: of the samples that are there, without the skipped ones
    std::span<const std::byte> samples;    ///< window.count · sample_bytes(), NHWC
    std::span<const std::int64_t> labels;  ///< window.count
    std::span<const std::int64_t> positions;  ///< in the epoch's order; addresses of random numbers
    std::span<const std::int64_t> indices;    ///< in the data set
    std::span<const SkippedSample> skipped;   ///< none unless the loader skips
    std::span<const float> targets = {};      ///< window.count · info().targets, row-major
};

/// Batches in the order of the windows, whatever the number of workers. `prefetch` batches are held ready in
/// buffers allocated once; a batch that no worker has begun when it is asked for is read by the caller. While
/// reading a batch takes less than some 50 µs (small samples in memory) workers are left asleep. There are
/// none for data that only one thread may read (Dataset::reads_alone).
/// Created, used and destroyed by one thread; workers are its own. A window of count 0 gives a batch of count
/// 0.
class Loader {
  public:
    /// The data set must outlive the loader. Windows hold at most max_batch samples. UsageError: max_batch or
    /// prefetch < 1, workers < 0. Batches are read into host memory of `device` (Device::allocate_host),
    /// which must outlive the loader; into ordinary memory for nullptr. on_error skip: a batch that throws a
    /// DataError is read sample by sample, and those that throw are left out (HostBatch::skipped).
    Loader(const Dataset& dataset, std::int64_t max_batch, int workers, int prefetch,
           Device* device = nullptr, OnError on_error = OnError::stop);
    ~Loader();
    Loader(const Loader&) = delete;
    Loader& operator=(const Loader&) = delete;

    /// Begins an epoch (or evaluation pass): what was under way is dropped, after the reads in flight.
    /// order: the epoch's list (epoch_order), indexed by the windows' positions. RunError: a window outside
    /// it. `epoch` is part of the addresses of random numbers (Dataset::read_at).
    void start(std::vector<std::int64_t> order, std::vector<BatchWindow> windows, std::int64_t epoch = 0);

    /// The next batch, or nothing at the end. Rethrows what reading it threw (DataError), at the batch it
    /// belongs to; the batches after it can still be read.
    std::optional<HostBatch> next();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace tutti
