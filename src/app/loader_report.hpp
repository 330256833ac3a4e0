#pragma once
// What `trainer bench loader` has found, as text and as JSON.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tutti/input/dataset.hpp"
#include "tutti/train/step_figures.hpp"

namespace tutti {

/// One way of reading, measured in turn with the others; of all ranks together.
struct LoaderRow {
    bool cold = false;             ///< the files were evicted from the page cache before every round
    std::optional<bool> shuffled;  ///< empty: the plain sequential read
    int workers = 0;               ///< threads of the loader
    std::uint64_t block = 0;       ///< bytes of a read(2) of the plain sequential read
    std::uint64_t bytes = 0;       ///< of a round
    std::int64_t samples = 0;      ///< of a round; 0 for the plain sequential read
    std::vector<double> seconds;   ///< of each round, by the slowest rank

    double median() const { return spread_of(seconds).median; }
    double bytes_per_second() const { return static_cast<double>(bytes) / median(); }
    double samples_per_second() const { return static_cast<double>(samples) / median(); }
};

struct LoaderReport {
    nlohmann::ordered_json provenance;    ///< as in a run's provenance.json
    DatasetInfo data;                     ///< as batches have it: after the transforms
    std::int64_t stored_bytes = 0;        ///< of a sample in the file, which all figures count
    std::vector<std::string> transforms;  ///< as the resolved config has them
    std::vector<std::string> files;
    std::int64_t batch_size = 0, prefetch = 0, batches = 0;  ///< per rank; batches of a round
    std::size_t rounds = 0, cold_rounds = 0;
    /// The largest share of the files that was still in memory after an eviction; nothing without cold
    /// rounds.
    std::optional<double> left_in_memory;
    std::vector<LoaderRow> rows;

    /// The row's bytes per second over those of the sequential read in its largest blocks, which come first,
    /// under the same condition.
    double share(const LoaderRow& row) const;
    /// The same over that in blocks of a batch, which comes last. The largest blocks are these where a batch
    /// is large.
    double share_of_batch_reads(const LoaderRow& row) const;
};

/// Seconds, bytes, samples. benchmark "loader"; version; provenance; files, samples, sample_shape and
/// dtype (after the transforms), transforms, sample_bytes (in the file), batch_size, prefetch, batches;
/// rounds, cold_rounds, left_in_memory (or null); rows: [{state "warm" | "cold", order "shuffled" | "file" |
/// "sequential read", workers, block_bytes, samples, bytes, seconds {min, median, max}, samples_per_second,
/// bytes_per_second, share, share_of_batch_reads}], where samples, samples_per_second and workers of the
/// sequential read are null, and block_bytes of the others.
nlohmann::ordered_json to_json(const LoaderReport& report);

std::string to_text(const LoaderReport& report);

}  // namespace tutti
