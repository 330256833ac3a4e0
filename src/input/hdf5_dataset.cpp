#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <optional>
#include <utility>

#include "dataset_file.hpp"
#include "hdf5_attributes.hpp"
#include "hdf5_storage.hpp"
#include "hdf5_support.hpp"
#include "hdf5_table.hpp"
#include "labels_and_targets.hpp"
#include "sample_storage.hpp"
#include "schema.hpp"
#include "tutti/base/error.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti {
namespace {

using hdf5::Handle;
using hdf5::Table;

class Hdf5Dataset final : public Dataset {
  public:
    Hdf5Dataset(std::string path, DatasetInfo info, std::vector<std::int64_t> labels,
                std::vector<float> targets, std::vector<Handle> sources,
                std::unique_ptr<SampleStorage> storage)
        : path_(std::move(path)),
          info_(std::move(info)),
          labels_(std::move(labels)),
          targets_(std::move(targets)),
          sources_(std::move(sources)),
          storage_(std::move(storage)) {}

    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return path_; }

    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> labels) const override {
        assert(samples.size() == indices.size() * static_cast<std::size_t>(info_.sample_bytes()) &&
               labels.size() == indices.size());
        require_indices(indices);
        // Random places in memory, on their way while the samples are read.
        if (info_.labelled)
            for (const std::int64_t index : indices) __builtin_prefetch(labels_.data() + index);
        storage_->read(indices, samples.data());
        take_labels(indices, labels);
        if (info_.dtype == DType::f32) require_finite(indices, samples);
        if (info_.sample_shape.rank() == 2) require_steps(indices, samples);
    }

    void read_labels(std::span<const std::int64_t> indices, std::span<std::int64_t> labels) const override {
        require_indices(indices);
        take_labels(indices, labels);
    }

    std::span<const float> targets() const override { return targets_; }
    std::vector<float> hand_over_targets() override { return std::exchange(targets_, {}); }
    void bring_in(BringInPatience& patience) const override { storage_->bring_in(patience); }
    std::uint64_t mapped_bytes() const override { return storage_->mapped_bytes(); }
    std::uint64_t brought_in_bytes() const override { return storage_->brought_in_bytes(); }
    bool waits_for_disk() const override { return storage_->waits_for_disk(); }
    bool reads_alone() const override { return storage_->calls_library() && !hdf5::is_thread_safe(); }
    void announce(std::span<const std::int64_t> indices) const override { storage_->announce(indices); }

    void expect_reads(double samples) override {
        if (!whole_file_pays(samples, info_.samples, info_.sample_bytes())) storage_->fetch_as_needed();
    }

  private:
    void require_indices(std::span<const std::int64_t> indices) const {
        if (!all_inside(indices, info_.samples)) fail_at(indices);
    }

    void take_labels(std::span<const std::int64_t> indices, std::span<std::int64_t> labels) const {
        if (!info_.labelled) {
            std::ranges::fill(labels.first(indices.size()), 0);
            return;
        }
        const auto classes = static_cast<std::uint64_t>(info_.classes);
        bool inside = true;
        for (std::size_t i = 0; i < indices.size(); ++i) {
            labels[i] = labels_[static_cast<std::size_t>(indices[i])];
            inside &= static_cast<std::uint64_t>(labels[i]) < classes;
        }
        if (!inside) fail_at(indices);
    }

    /// A NaN in one sample would make all weights NaN, a step later, on all ranks.
    void require_finite(std::span<const std::int64_t> indices, std::span<const std::byte> samples) const {
        const auto* const values = reinterpret_cast<const float*>(samples.data());
        const auto features = static_cast<std::size_t>(info_.sample_shape.count());
        for (std::size_t i = 0; i < indices.size(); ++i) {
            const std::span<const float> sample(values + i * features, features);
            // In integers, which compilers do in vectors: all ones in the exponent.
            constexpr std::uint32_t exponent = 0x7f800000;
            std::uint32_t found = 0;
            for (const float value : sample)
                found |= (std::bit_cast<std::uint32_t>(value) & exponent) == exponent;
            if (found == 0) continue;
            const auto bad = std::find_if_not(sample.begin(), sample.end(),
                                              [](float value) { return std::isfinite(value); });
            throw DataError(path_ + ": sample " + std::to_string(indices[i]) + " has the value " +
                                std::to_string(*bad) + place_of(bad - sample.begin()),
                            "correct the value or leave the sample out: features must be finite");
        }
    }

    /// What says which steps of a sequence exist: readers go by the first that does not.
    void require_steps(std::span<const std::int64_t> indices, std::span<const std::byte> samples) const {
        const auto* const values = reinterpret_cast<const float*>(samples.data());
        const std::int64_t steps = info_.sample_shape[0], features = info_.sample_shape[1];
        for (std::size_t i = 0; i < indices.size(); ++i) {
            const float* const exists =
                values + static_cast<std::int64_t>(i) * steps * features + features - 1;
            float before = 1;
            for (std::int64_t step = 0; step < steps; ++step) {
                const float value = exists[step * features];
                if (value != before && (value != 0 || before != 1))
                    throw DataError(
                        fmt::format(
                            "{}: sample {} has the value {} as the last feature of step {}, behind {}", path_,
                            indices[i], value, step, before),
                        "let it be 1 for the steps that exist, and 0 for padding behind them");
                before = value;
            }
        }
    }

    /// Of a value in a sample.
    std::string place_of(std::int64_t value) const {
        const std::int64_t features = info_.sample_shape[info_.sample_shape.rank() - 1];
        std::string feature = " as feature " + std::to_string(value % features);
        if (!info_.feature_names.empty())
            feature += " (" + info_.feature_names[static_cast<std::size_t>(value % features)] + ")";
        if (info_.sample_shape.rank() == 1) return feature;
        return feature + " of step " + std::to_string(value / features);
    }

    /// Whether all are in [0, end). Without a branch per value: several are looked at at once.
    static bool all_inside(std::span<const std::int64_t> values, std::int64_t end) {
        bool inside = true;
        for (const std::int64_t value : values)
            inside &= static_cast<std::uint64_t>(value) < static_cast<std::uint64_t>(end);
        return inside;
    }

    /// About the first index that does not exist or has an impossible label.
    [[noreturn]] void fail_at(std::span<const std::int64_t> indices) const {
        const auto bad = std::ranges::find_if(indices, [this](std::int64_t index) {
            return !all_inside({&index, 1}, info_.samples) ||
                   (info_.labelled &&
                    !all_inside({&labels_[static_cast<std::size_t>(index)], 1}, info_.classes));
        });
        const std::string& file = path_;
        if (!all_inside({&*bad, 1}, info_.samples))
            throw DataError(file + ": there is no sample " + std::to_string(*bad) + ", the file has " +
                            std::to_string(info_.samples));
        throw DataError(
            file + ": sample " + std::to_string(*bad) + " has " +
                schema::label_outside(labels_[static_cast<std::size_t>(*bad)], info_.classes),
            "correct the label (they count from 0) or the attribute 'classes', or " + schema::pack_again());
    }

    std::string path_;
    DatasetInfo info_;
    std::vector<std::int64_t> labels_;
    std::vector<float> targets_;
    std::vector<Handle> sources_;
    std::unique_ptr<SampleStorage> storage_;
};

bool is_unsigned_byte(hid_t type) {
    return H5Tget_class(type) == H5T_INTEGER && H5Tget_size(type) == 1 && H5Tget_sign(type) == H5T_SGN_NONE;
}
bool is_float32(hid_t type) {
    return H5Tget_class(type) == H5T_FLOAT && H5Tget_size(type) == 4;
}

/// What people store instead, and what to do with it.
std::string advice_on_samples(const Table& samples) {
    const bool is_float = H5Tget_class(samples.type.get()) == H5T_FLOAT;
    const std::string bytes =
        "pixels are stored as bytes from 0 to 255, and divided by 255 as they are read: those of floats "
        "from 0 to 1 are stored in h5py as (samples * 255).round().astype('uint8')";
    const std::size_t dimensions = samples.dims.size();
    if (dimensions == 3 && !is_float) return ": grey images have C = 1, one dimension more";
    if (dimensions == 3)
        return ": convert the features of sequences, in h5py with astype('float32'); " + bytes;
    if (dimensions > 3 && is_float) return ": " + bytes;
    if (dimensions == 2) return ": convert the features, in h5py with astype('float32')";
    const std::size_t bits = 8 * H5Tget_size(samples.type.get());
    if (dimensions == 4 && bits > 8)
        return ": scale the pixels to bytes from 0 to 255, those of all " + std::to_string(bits) +
               " bits in h5py with (samples >> " + std::to_string(bits - 8) +
               ").astype('uint8'); astype alone is for pixels that are at most 255";
    if (dimensions == 4) return ": convert the pixels to bytes from 0 to 255, in h5py with astype('uint8')";
    return {};
}

void set_samples(DatasetInfo& info, const hdf5::File& file, const Table& samples) {
    const bool images = is_unsigned_byte(samples.type.get()) && samples.dims.size() == 4;
    const bool features =
        is_float32(samples.type.get()) && (samples.dims.size() == 2 || samples.dims.size() == 3);
    if (!images && !features)
        schema::fail(
            file.path,
            "/samples is " + hdf5::describe(samples) +
                ", but must be uint8 [N, H, W, C] for images, float32 [N, F] for features or float32 "
                "[N, T, F] for sequences" +
                advice_on_samples(samples));
    info.dtype = images ? DType::u8 : DType::f32;
    info.samples = samples.dims.front();
    info.sample_shape = Shape(std::span(samples.dims).subspan(1));
}

/// What was never written would be read as zeros: the file of a job that was ended. In a damaged file reading
/// tells which samples are lost.
void require_all(const hdf5::File& file, const Table& samples) {
    const hdf5::Storage storage = hdf5::storage_of(samples);
    if (storage.complete || !storage.known) return;
    schema::fail(file.path,
                 "/samples is " + hdf5::describe(samples) + ", " + storage.missing +
                     ": what wrote it was ended, or is not done yet",
                 "write all of it, or " + schema::pack_again());
}

void require_filters(const hdf5::File& file, hid_t layout) {
    for (int i = 0; i < H5Pget_nfilters(layout); ++i) {
        unsigned flags = 0;
        std::size_t values = 0;
        std::array<char, 64> name{};
        const H5Z_filter_t filter = H5Pget_filter2(layout, static_cast<unsigned>(i), &flags, &values, nullptr,
                                                   name.size() - 1, name.data(), nullptr);
        if (H5Zfilter_avail(filter) <= 0)
            throw DataError(file.path + ": /samples is compressed with filter " + std::to_string(filter) +
                                " (" + (name[0] == '\0' ? "no name" : name.data()) +
                                "), which this HDF5 does not have",
                            "write it with gzip or uncompressed, or set HDF5_PLUGIN_PATH");
    }
}

/// Where the samples begin in their file, if they lie there in one piece and as they are in memory.
std::optional<std::uint64_t> plain_offset(const Table& samples, hid_t layout) {
    if (H5Pget_layout(layout) != H5D_CONTIGUOUS || H5Pget_external_count(layout) != 0) return std::nullopt;
    const hid_t type = samples.type.get();
    if (H5Tequal(type, H5T_NATIVE_UINT8) <= 0 && H5Tequal(type, H5T_NATIVE_FLOAT) <= 0) return std::nullopt;
    const haddr_t offset = H5Dget_offset(samples.data.get());
    if (offset == HADDR_UNDEF) return std::nullopt;  // there are no samples
    return offset;
}

}  // namespace

bool is_dataset_file(const std::string& path) {
    const hdf5::QuietErrors quiet;
    try {
        return hdf5::read_text(open_dataset_file(path), schema::name_attribute) == schema::name;
    } catch (const DataError&) {
        return false;
    }
}

std::unique_ptr<Dataset> open_hdf5_dataset(const std::string& path, const FileMemory& memory,
                                           Labels labels_wanted) {
    const hdf5::QuietErrors quiet;
    hdf5::File file = open_dataset_file(path);
    require_schema(file);
    DatasetInfo info;
    describe_labels_and_targets(info, file, labels_wanted);
    info.mean = hdf5::read_floats(file, schema::mean_attribute);
    info.std = hdf5::read_floats(file, schema::std_attribute);
    info.frames = hdf5::read_integer(file, schema::frames_attribute).value_or(0);
    Table samples = hdf5::open_table(file, schema::samples_dataset);
    set_samples(info, file, samples);
    // Images have none, whatever somebody keeps in such an attribute.
    if (info.dtype == DType::f32)
        info.feature_names = hdf5::read_texts(file, schema::feature_names_attribute);
    if (const schema::Violation found = schema::violation(info))
        schema::fail(path, found.problem, found.remedy);
    require_all(file, samples);
    std::vector<std::int64_t> labels;
    if (info.labelled) labels = read_labels(file, info.samples);
    std::vector<float> targets;
    if (info.targets > 0) targets = read_targets(file, info);

    const Handle layout(H5Dget_create_plist(samples.data.get()), H5Pclose);
    require_filters(file, layout.get());
    const std::optional<std::uint64_t> offset = plain_offset(samples, layout.get());
    std::unique_ptr<SampleStorage> storage =
        offset ? contiguous_storage(hdf5::file_of(samples.data.get()), info, *offset, memory)
               : chunked_storage(path, info, layout.get(), std::move(file.handle), std::move(samples.data));
    return std::make_unique<Hdf5Dataset>(path, std::move(info), std::move(labels), std::move(targets),
                                         std::move(samples.sources), std::move(storage));
}

}  // namespace tutti
