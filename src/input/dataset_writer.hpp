#pragma once
// Writes a data set in pieces, so that a packer need not hold it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "hdf5_attributes.hpp"
#include "hdf5_support.hpp"
#include "tutti/base/atomic_file.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/input/sample_placement.hpp"

namespace tutti {

/// Packers hold about so much of what they write.
inline constexpr std::int64_t packed_piece_bytes = std::int64_t{4} << 20;

/// UsageError where `output` is the file `source`: what is read must not be what is written.
void refuse_overwriting(const std::string& output, const std::string& source);

/// RunError where a signal was noted (StopSignal). For the loops of packers that read; append() calls it.
void end_if_stopped(const std::string& output);

/// Whether the file is to say where each sample comes from.
enum class Paths { none, stored };
/// Whether it is to say where each lies in a picture.
enum class Placements { none, stored };

/// Writes to a temporary file beside `path`; commit() makes it `path`, the destructor removes what was not
/// committed.
class DatasetWriter {
  public:
    /// Makes the directory of `path` if there is none. DataError: `info` is not of the schema, the file
    /// cannot be made at this path. RunError: a disk that is full or broken.
    DatasetWriter(const std::string& path, const DatasetInfo& info, const std::string& source,
                  Paths paths = Paths::none, Placements placements = Placements::none);
    ~DatasetWriter();
    DatasetWriter(const DatasetWriter&) = delete;
    DatasetWriter& operator=(const DatasetWriter&) = delete;

    /// The next samples, with a label each, or none where info has no labels, info.targets targets each, and
    /// where they come from and lie, where that is stored: of paths what is no UTF-8 becomes U+FFFD.
    /// DataError: a label outside [0, classes), a target that is not finite, more samples than announced.
    /// RunError: a failed write, a signal that asks to stop.
    void append(std::span<const std::byte> samples, std::span<const std::int64_t> labels,
                std::span<const float> targets = {}, std::span<const std::string> paths = {},
                std::span<const SamplePlacement> placements = {});

    /// Of sequences [T, F] without labels, which may be large: the next steps of the next sample, in pieces.
    /// What is thrown is append()'s.
    void append_steps(std::span<const std::byte> steps);
    /// The sample has no more steps; those that it lacks are 0. Its targets, and its path where that is
    /// stored.
    void end_sequence(std::span<const float> targets, std::span<const std::string> paths);

    /// Syncs and renames. DataError: fewer samples than announced, the path became a directory. RunError: a
    /// failed write.
    void commit();

  private:
    void create(const std::string& source, Paths paths, Placements placements);
    hdf5::Handle create_table(const char* name, hid_t type, std::span<const hsize_t> dims) const;
    void append_rest(std::int64_t count, std::span<const std::int64_t> labels, std::span<const float> targets,
                     std::span<const std::string> paths, std::span<const SamplePlacement> placements);
    hid_t sample_type() const;
    void require_labels(std::span<const std::int64_t> labels) const;
    void require_targets(std::span<const float> targets, std::int64_t samples) const;
    [[noreturn]] void fail(const std::string& what, const std::string& reason) const;
    /// By `error` (errno): as fail, or as fail_writing where the disk is to blame and not the path.
    [[noreturn]] void fail(const std::string& what, int error) const;
    [[noreturn]] void fail_writing(const std::string& reason) const;

    std::string path_;
    std::optional<file::Temporary> temporary_;
    DatasetInfo info_;
    std::int64_t written_ = 0;  ///< samples
    std::int64_t steps_ = 0;    ///< of the next sample
    hdf5::File file_;
    hdf5::Handle samples_, labels_, targets_, paths_, placements_;
};

}  // namespace tutti
