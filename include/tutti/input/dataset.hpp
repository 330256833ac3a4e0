#pragma once
// A set of samples, with labels or targets, that can be read by index.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/base/dtype.hpp"
#include "tutti/base/shape.hpp"

namespace tutti {

namespace target_kinds {
/// Of a sequence [T, F], whose steps are seconds, 2 · T targets, of second t the pair (a, b): how many
/// seconds before the beginning of t its segment begins, and behind it ends, a ≥ 0 and b > 0; (−1, −1) where
/// it is in none, and where it is padding.
inline constexpr const char* segments = "segments";
}  // namespace target_kinds

struct DatasetInfo {
    std::int64_t samples = 0;
    Shape sample_shape;  ///< {H, W, C} for images, {F} for features; {T, F} for sequences of T steps, of
                         ///< which the last feature is 1 where the step exists, and 0 where it is padding
    DType dtype = DType::u8;
    std::int64_t classes = 0;              ///< 0: has no labels, and does not say
    std::vector<std::string> class_names;  ///< empty or `classes` names
    std::vector<float> mean, std;          ///< the file's normalisation per channel; empty when it has none
    bool labelled = true;                  ///< false: read() gives 0 for every label
    std::int64_t targets = 0;              ///< numbers to give for each sample; 0: none. Then not labelled
    std::vector<std::string> target_names{};   ///< empty or `targets` names
    std::string target_kind{};                 ///< of target_kinds; empty: each target is a number by itself
    std::vector<std::string> feature_names{};  ///< of f32 samples: empty or F names
    std::int64_t frames = 0;  ///< of clips, whose channels are those of all frames; 0: does not say
    /// Of files that are read as one: which of them is normalised by another's mean and std; else empty.
    std::string other_normalisation{};
    bool has_segments() const { return target_kind == target_kinds::segments; }
    std::int64_t sample_bytes() const {
        return sample_shape.count() * static_cast<std::int64_t>(size_of(dtype));
    }
};

/// What a model is to give for a sample: "10 classes", "2 targets", "segments in 900 seconds", "no labels",
/// or "10 classes, no labels" of data that are only predicted. Pure.
std::string describe_wanted(const DatasetInfo& info);

/// Whether classes have names, and not the numbers that packers write where nobody has named them. Pure.
bool are_named(const std::vector<std::string>& class_names);

/// The first class that has another name in `names` than in those of training, of which the last may be
/// missing: "class 1 is horse, but WHERE it is dog". Empty: there is none, or one of both has no names
/// (are_named). Pure.
std::string other_class_name(const std::vector<std::string>& trained, const std::vector<std::string>& names,
                             const std::string& where);

/// Where `names`, what the features of a data set are, are others than those of training, or in another
/// order: "has the features b, a, but WHERE a, b". `where` ends in a verb: "the model was trained with". Of
/// long lists the first difference: "has b as feature 12, but WHERE a there". Empty: they are the same, or
/// one of both has none. Pure.
std::string other_features(const std::vector<std::string>& trained, const std::vector<std::string>& names,
                           const std::string& where);

/// Where images look as if their channels came first ([3, 32, 32]), which nothing but the numbers can tell,
/// and where sequences may be grey images: what they are taken for, and what to do; else nothing.
std::string doubt_about_layout(const DatasetInfo& info);

/// Where the mean of images is one of pixels from 0 to 255, and not, as it is taken for, from 0 to 1, so that
/// all pixels would be much the same: what it is, and what to do; else nothing. Pure.
std::string doubt_about_units(const DatasetInfo& info);

/// Where samples stand in an epoch: the addresses of random numbers.
struct EpochPositions {
    std::int64_t epoch = 0;
    std::span<const std::int64_t> positions;  ///< in the epoch's order, one per index that is read
    /// Unless null, the time is added to it that augmentation took, which no disk was waited for.
    std::chrono::duration<double>* transforming = nullptr;
};

/// How long a batch waits while files are brought into memory as a whole: until `end`, beyond the piece that
/// it is at then, and for one piece in any case. One for all files that the batch may come from.
struct BringInPatience {
    using Clock = std::chrono::steady_clock;
    Clock::time_point end = Clock::now() + std::chrono::seconds(1);
    bool piece_brought = false;
    bool more_to_bring = false;   ///< set where files are left of which not all is in memory
    std::uint64_t asked_for = 0;  ///< bytes of the files that were asked so far

    bool over() const { return piece_brought && Clock::now() >= end; }
};

/// Whether a file must have labels or targets.
enum class Labels { required, optional };

/// What each thread that brings in a file maps of it meanwhile, unless the file is mapped as a whole.
inline constexpr std::uint64_t bring_in_piece_bytes = std::uint64_t{16} << 20;

/// read() and read_at() may be called from several threads at once.
class Dataset {
  public:
    virtual ~Dataset() = default;
    virtual const DatasetInfo& info() const = 0;
    /// For messages: the file's path; of many files the first one's, and how many there are beside it.
    virtual std::string name() const = 0;
    /// samples: indices.size() · sample_bytes(); labels: indices.size(). Throws DataError naming file and
    /// sample: a read that fails, a label outside [0, classes), a feature that is not finite.
    virtual void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
                      std::span<std::int64_t> labels) const = 0;
    /// The same for training. Differs where samples are augmented (tutti/input/transforms.hpp).
    virtual void read_at(const EpochPositions& at, std::span<const std::int64_t> indices,
                         std::span<std::byte> samples, std::span<std::int64_t> labels) const {
        static_cast<void>(at);
        read(indices, samples, labels);
    }
    /// Of the same samples, training's or not, the targets, [indices.size(), info().targets], row-major.
    /// Differs from the rows of targets() where a target is a place that moves as its sample is augmented.
    /// Any thread.
    virtual void targets_at(const EpochPositions& at, std::span<const std::int64_t> indices,
                            std::span<float> out) const;
    /// Brings files into memory (brought_in_bytes()), which is quicker than fetching from the disk what each
    /// batch needs: in their order, threads that call at the same time different pieces, until all is there
    /// or the patience is over. Given up for good where the memory that can still be had has become less than
    /// the files. Before each batch's read(); without it read() fetches what it needs. A hint, as announce();
    /// any thread.
    virtual void bring_in(BringInPatience& patience) const { static_cast<void>(patience); }
    /// The labels alone, as read() gives them. Unless overridden, the samples are read, too, and dropped.
    virtual void read_labels(std::span<const std::int64_t> indices, std::span<std::int64_t> labels) const;
    /// f32 [info().samples, info().targets], row-major, in host memory, finite, valid as long as the data
    /// set: what a model for regression is to give for each sample that is not augmented. Empty where
    /// info().targets is 0.
    virtual std::span<const float> targets() const { return {}; }
    /// The numbers of targets(), for a data set that joins several and keeps them in their stead. From then
    /// on targets() of this one may be empty. Unless overridden, they are copied.
    virtual std::vector<float> hand_over_targets();
    /// Bytes of files that read() takes from a mapping: they are in the resident set once they were read, but
    /// are pages of the page cache, shared by the processes of a host and taken back when memory is short.
    virtual std::uint64_t mapped_bytes() const { return 0; }
    /// Bytes of samples in files that bring_in() brings into memory, mapped ones among them.
    virtual std::uint64_t brought_in_bytes() const { return mapped_bytes(); }
    /// Bytes of a sample in its file; info() is of what read() gives.
    virtual std::int64_t stored_sample_bytes() const { return info().sample_bytes(); }
    /// Memory that each thread keeps which has read so many samples at once.
    virtual std::size_t reading_bytes(std::int64_t samples) const {
        static_cast<void>(samples);
        return 0;
    }
    /// Whether read() waited for the disk lately: announcing what comes next pays. May be called from several
    /// threads at once, as announce().
    virtual bool waits_for_disk() const { return false; }
    /// Whether read() calls a library that only one thread of the process may be in: HDF5 that was built
    /// without --enable-threadsafe (The HDF Group, "Thread-Safe HDF5"). A loader then has no workers.
    virtual bool reads_alone() const { return false; }
    /// Valid indices that the next calls of read() will be about: a disk then works on all of them at once. A
    /// hint: it changes no result and throws nothing.
    virtual void announce(std::span<const std::int64_t> indices) const { static_cast<void>(indices); }
    /// Before the first read() and bring_in(): about how many samples the processes of this host will read.
    /// Files that would be brought into memory as a whole for too few are neither mapped nor brought in
    /// (whole_file_pays). Without this call all are that were found to fit.
    virtual void expect_reads(double samples) { static_cast<void>(samples); }
};

/// However many ranks share a host, each maps the data sets that it has open, training and validation, as
/// long as together they have no more than so many bytes of samples. The resident set of a rank, which batch
/// systems watch, stays bounded; where few ranks share much memory, and nobody watches, they may map more
/// (FileMemory::map).
inline constexpr std::uint64_t mapped_limit = std::uint64_t{1} << 30;

/// What files that are opened may take of the host's memory, in bytes of samples. All of it is page cache,
/// which the ranks of a host share and the system takes back when memory is short.
struct FileMemory {
    std::uint64_t map;       ///< of files that are mapped: they count in the resident set
    std::uint64_t bring_in;  ///< of files that are brought in as a whole, mapped ones among them

    FileMemory(std::uint64_t mapped, std::uint64_t brought_in) : map(mapped), bring_in(brought_in) {}
    /// Only files that are mapped are brought in.
    FileMemory(std::uint64_t mapped) : FileMemory(mapped, mapped) {}
    /// What other files may take.
    FileMemory left_by(const Dataset& dataset) const;
};

/// Where `available` bytes of memory can still be had (available_bytes()): half of them, and no more than
/// mapped_limit of files that are mapped.
FileMemory file_memory(std::optional<std::int64_t> available);

/// Opens an HDF5 data set written by `trainer pack` (schema: data/README.md). Contiguous uncompressed data
/// are read at offsets resolved here, without the library: from a mapping of a file on a local file system
/// where `memory` lets them, else with pread; chunked or filtered ones through HDF5.
/// Throws DataError: missing, unreadable, truncated, not of the schema (what is wrong and how to pack it
/// again), a target that is not finite.
std::unique_ptr<Dataset> open_hdf5_dataset(const std::string& path, const FileMemory& memory = mapped_limit,
                                           Labels labels = Labels::required);

/// Whether a file says that it is a data set, of any version of the schema. False where it cannot be read.
bool is_dataset_file(const std::string& path);

/// Whether bringing a whole file into memory, in its order, costs a host no more than reading `reads` of its
/// samples one by one: where a disk fetches 128 KiB (what Linux reads ahead, by default) in the time of any
/// smaller read, so that a small sample costs as much. `reads` as in expect_reads(), of samples of
/// `sample_bytes`.
bool whole_file_pays(double reads, std::int64_t samples, std::int64_t sample_bytes);

/// Several files as one, in the order given. A file is mapped, or brought in, where `memory` has room for it
/// beside those before it that are, by default file_memory() of what is available now. All must agree in
/// shape, dtype, whether there are labels, the number and kind of targets, and, where they have them,
/// classes and the names of classes, targets and features (DataError names both). The normalisation is the
/// first file's. UsageError: no path. With paths alone labels are required; a command passes what its
/// training needs.
std::unique_ptr<Dataset> open_datasets(std::span<const std::string> paths);
std::unique_ptr<Dataset> open_datasets(std::span<const std::string> paths, FileMemory memory, Labels labels);

/// The labels as class counts: for inspection. Reads all labels.
std::vector<std::int64_t> count_labels(const Dataset& dataset);

}  // namespace tutti
