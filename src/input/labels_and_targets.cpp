#include "labels_and_targets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>

#include "hdf5_storage.hpp"
#include "hdf5_table.hpp"
#include "schema.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// What people store instead, and what to do with it.
std::string advice_on_labels(const hdf5::Table& labels) {
    if (labels.dims.size() == 2 && labels.dims[1] == 1)
        return ", with one dimension less: store them in h5py as labels[:, 0]";
    if (labels.dims.size() == 2) return ", one for each sample: of a row per class store where it is largest";
    if (H5Tget_class(labels.type.get()) == H5T_FLOAT) return ": convert them, in h5py with astype('int64')";
    return {};
}

std::string remedy_for_targets(const hdf5::Table& targets) {
    const std::string or_else = ", or " + schema::pack_targets_again();
    if (targets.dims.size() == 1)
        return "store them with one dimension more, K = 1, in h5py as targets[:, None]" + or_else;
    if (targets.dims.size() == 2 && H5Tget_class(targets.type.get()) == H5T_INTEGER)
        return "convert them, in h5py with targets.astype('float32')" + or_else;
    return schema::pack_targets_again();
}

/// A table with a row per sample.
struct Column {
    const char *name, *rows;
    std::string pack_again;
};

/// Before memory is taken for what the table claims to be.
void require_all(const hdf5::File& file, const Column& column, const hdf5::Table& table,
                 std::int64_t samples) {
    const std::string name = column.name;
    if (table.dims.front() != samples)
        schema::fail(file.path,
                     name + " has " + std::to_string(table.dims.front()) + " " + column.rows +
                         ", but /samples has " + std::to_string(samples),
                     column.pack_again);
    const hdf5::Storage storage = hdf5::storage_of(table);
    if (!storage.complete)
        schema::fail(file.path, name + " is " + hdf5::describe(table) + ", " + storage.missing,
                     "write all of it, or remove it, in h5py with del file['" + name.substr(1) + "'], or " +
                         column.pack_again);
}

void read(const hdf5::File& file, const Column& column, const hdf5::Table& table, hid_t type, void* values) {
    if (H5Dread(table.data.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0) return;
    const std::string reason = hdf5::last_error();
    schema::fail(file.path, std::string(column.name) + " cannot be read: " + reason, column.pack_again);
}

hdf5::Table open_targets(const hdf5::File& file) {
    hdf5::Table table = hdf5::open_table(file, schema::targets_dataset);
    const std::size_t bytes = H5Tget_size(table.type.get());
    const bool floats = H5Tget_class(table.type.get()) == H5T_FLOAT && (bytes == 4 || bytes == 8);
    if (!floats || table.dims.size() != 2 || table.dims[1] < 1)
        schema::fail(file.path,
                     "/targets is " + hdf5::describe(table) +
                         ", but must be float32 or float64 [N, K] with K of at least 1",
                     remedy_for_targets(table));
    return table;
}

/// Of each second what its segment is, or (-1, -1).
void require_offsets(const hdf5::File& file, const DatasetInfo& info, std::span<const float> targets) {
    for (std::size_t i = 0; i + 1 < targets.size(); i += 2) {
        const float before = targets[i], after = targets[i + 1];
        if ((before >= 0 && after > 0) || (before == -1 && after == -1)) continue;
        const auto at = static_cast<std::int64_t>(i);
        throw DataError(
            fmt::format("{}: sample {} has the targets ({}, {}) for second {}", file.path, at / info.targets,
                        before, after, at % info.targets / 2),
            "give how long before it its segment begins, 0 or more, and how long behind it ends, more than "
            "0, or (-1, -1) outside of segments (data/README.md)");
    }
}

}  // namespace

void describe_labels_and_targets(DatasetInfo& info, const hdf5::File& file, Labels wanted) {
    const bool has_labels = hdf5::has_table(file, schema::labels_dataset);
    const bool has_targets = hdf5::has_table(file, schema::targets_dataset);
    if (has_labels && has_targets)
        throw DataError(file.path + ": there are both /labels and /targets",
                        "keep what is to be learnt and remove the other, in h5py with del file['labels'] or "
                        "del file['targets']");
    if (wanted == Labels::required && !has_labels && !has_targets &&
        hdf5::has_table(file, schema::samples_dataset))
        throw DataError(file.path + ": there is no data set /labels, nor /targets",
                        "data without labels can only be predicted (trainer predict)");
    info.labelled = !has_targets && (wanted == Labels::required || has_labels);
    const std::optional<std::int64_t> classes = hdf5::read_integer(file, schema::classes_attribute);
    if (!classes && info.labelled) schema::fail(file.path, "there is no attribute 'classes'");
    info.classes = classes.value_or(0);
    info.class_names = hdf5::read_texts(file, schema::class_names_attribute);
    info.target_kind = hdf5::read_text(file, schema::target_kind_attribute).value_or("");
    if (has_labels && !info.target_kind.empty())
        schema::fail(file.path, "there is an attribute 'target_kind', but there are /labels, not /targets");
    if (!has_targets) info.target_kind.clear();
    if (!has_targets) return;
    info.targets = open_targets(file).dims[1];
    info.target_names = hdf5::read_texts(file, schema::target_names_attribute);
}

std::vector<std::int64_t> read_labels(const hdf5::File& file, std::int64_t samples) {
    const hdf5::Table table = hdf5::open_table(file, schema::labels_dataset);
    if (H5Tget_class(table.type.get()) != H5T_INTEGER || table.dims.size() != 1)
        schema::fail(file.path, "/labels is " + hdf5::describe(table) + ", but must be integers [N]" +
                                    advice_on_labels(table));
    const Column column{schema::labels_dataset, "entries", schema::pack_again()};
    require_all(file, column, table, samples);
    std::vector<std::int64_t> labels(static_cast<std::size_t>(samples));
    read(file, column, table, H5T_NATIVE_INT64, labels.data());
    return labels;
}

std::vector<float> read_targets(const hdf5::File& file, const DatasetInfo& info) {
    const hdf5::Table table = open_targets(file);
    const Column column{schema::targets_dataset, "rows", schema::pack_targets_again()};
    require_all(file, column, table, info.samples);
    std::vector<float> targets(static_cast<std::size_t>(info.samples * info.targets));
    read(file, column, table, H5T_NATIVE_FLOAT, targets.data());
    const auto bad = std::ranges::find_if_not(targets, [](float value) { return std::isfinite(value); });
    if (bad == targets.end()) {
        if (info.has_segments()) require_offsets(file, info, targets);
        return targets;
    }
    const auto at = bad - targets.begin();
    throw DataError(file.path + ": sample " + std::to_string(at / info.targets) + " has " +
                        schema::target_not_finite(info, at % info.targets, *bad),
                    "correct the value or leave the sample out: targets must be finite numbers of 32 bits");
}

}  // namespace tutti
