#include "dataset_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <system_error>
#include <vector>

#include "hdf5_texts.hpp"
#include "schema.hpp"
#include "tutti/base/atomic_file.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/failed_write.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/base/utf8.hpp"

namespace tutti {
namespace {

using hdf5::Handle;

/// A thread that waits for the library's lock, the loader's say, waits for one call: calls are kept short.
constexpr std::int64_t bytes_per_write = std::int64_t{4} << 20;

/// `count` rows from `first` on, which is the place of a sample, or of a sample and a step in it; at most
/// bytes_per_write at a time. What the library reports, or nothing: to be asked for at once, because its next
/// call, such as closing a handle, forgets it.
std::string write_rows(hid_t table, hid_t type, std::int64_t row_bytes,
                       std::initializer_list<std::int64_t> first, std::int64_t count, const std::byte* rows) {
    const Handle space(H5Dget_space(table), H5Sclose);
    std::array<hsize_t, H5S_MAX_RANK> start{}, extent{};
    const int rank = H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr);
    if (rank < 1) return hdf5::last_error();
    const std::size_t along = first.size() - 1;
    std::copy(first.begin(), first.end(), start.begin());
    std::fill_n(extent.begin(), along, hsize_t{1});
    const std::int64_t piece = std::max<std::int64_t>(1, bytes_per_write / row_bytes);
    for (std::int64_t done = 0; done < count; done += piece) {
        start[along] = static_cast<hsize_t>(first.begin()[along] + done);
        extent[along] = static_cast<hsize_t>(std::min(piece, count - done));
        const Handle memory(H5Screate_simple(rank, extent.data(), nullptr), H5Sclose);
        if (H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr) <
                0 ||
            H5Dwrite(table, type, memory.get(), space.get(), H5P_DEFAULT, rows + done * row_bytes) < 0)
            return hdf5::last_error();
    }
    return {};
}

/// The same of texts, of variable length.
std::string write_texts(hid_t table, std::int64_t first, std::span<const std::string> texts) {
    constexpr std::size_t at_once = 4096;
    const Handle type = hdf5::variable_text_type();
    std::vector<std::string> piece;
    std::vector<const char*> pointers;
    for (std::size_t done = 0; done < texts.size(); done += at_once) {
        piece.clear();
        pointers.clear();
        for (const std::string& text : texts.subspan(done, std::min(at_once, texts.size() - done)))
            piece.push_back(as_utf8(text));
        for (const std::string& text : piece) pointers.push_back(text.c_str());
        const std::string reason =
            write_rows(table, type.get(), sizeof(char*), {first + static_cast<std::int64_t>(done)},
                       static_cast<std::int64_t>(piece.size()), std::as_bytes(std::span(pointers)).data());
        if (!reason.empty()) return reason;
    }
    return {};
}

/// Readers of the file, of predictions and of reports take them for UTF-8.
void require_utf8(const std::string& path, const char* what, std::span<const std::string> names) {
    for (const std::string& name : names)
        if (!is_utf8(name))
            throw DataError(
                fmt::format("{}: cannot be written: the {} {} is not UTF-8", path, what, as_utf8(name)),
                "rename the folder that it comes from, or convert the table: iconv -f LATIN1 -t UTF-8 OLD > "
                "NEW");
}

}  // namespace

void refuse_overwriting(const std::string& output, const std::string& source) {
    std::error_code missing;  // a file that does not exist yet is no source
    if (std::filesystem::equivalent(source, output, missing))
        throw UsageError("-o " + output + " would overwrite " + source, "give another name");
}

void end_if_stopped(const std::string& output) {
    if (StopSignal::pending() != 0)
        throw RunError(output + ": stopped by signal " + std::to_string(StopSignal::pending()),
                       "nothing was written; start it again");
}

DatasetWriter::DatasetWriter(const std::string& path, const DatasetInfo& info, const std::string& source,
                             Paths paths, Placements placements)
    : path_(path), info_(info) {
    if (const schema::Violation found = schema::violation(info))
        throw DataError(path_ + ": cannot be written: " + found.problem);
    require_utf8(path_, "class", info.class_names);
    require_utf8(path_, "target", info.target_names);
    require_utf8(path_, "feature", info.feature_names);
    std::error_code error;
    if (const std::filesystem::path directory = std::filesystem::path(path_).parent_path();
        !directory.empty())
        std::filesystem::create_directories(directory, error);
    if (error) fail("its directory cannot be made", error.value());
    if (std::filesystem::is_directory(path_, error)) fail("cannot be written", "it is a directory");
    // It would take the place of a device, such as /dev/null, for everybody.
    if (std::filesystem::exists(path_, error) && !std::filesystem::is_regular_file(path_, error))
        fail("cannot be written", "there is something else than a file");
    const hdf5::QuietErrors quiet;
    create(source, paths, placements);
}

DatasetWriter::~DatasetWriter() {
    const hdf5::QuietErrors quiet;  // of a file that is closed before it is whole
    for (Handle* handle : {&samples_, &labels_, &targets_, &paths_, &placements_, &file_.handle})
        handle->close();
}

void DatasetWriter::create(const std::string& source, Paths paths, Placements placements) {
    const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
    // The format of HDF5 1.8 and dense attributes: the first format allows an attribute 64 KiB, 4096 class
    // names.
    H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_LATEST);
    H5Pset_attr_phase_change(creation.get(), 0, 0);
    H5Pset_obj_track_times(creation.get(), false);
    // The library does not say why it cannot make a file in a way that a program can tell apart.
    try {
        temporary_.emplace(path_);
    } catch (const std::system_error& failure) {
        fail("cannot be made", failure.code().value());
    }
    file_ = {
        Handle(H5Fcreate(temporary_->name().c_str(), H5F_ACC_TRUNC, creation.get(), access.get()), H5Fclose),
        path_};
    if (!file_.handle) fail_writing(hdf5::last_error());

    hdf5::write_text(file_, schema::name_attribute, std::string(schema::name));
    hdf5::write_integer(file_, schema::version_attribute, schema::version);
    if (info_.labelled || info_.classes > 0)
        hdf5::write_integer(file_, schema::classes_attribute, info_.classes);
    hdf5::write_texts(file_, schema::class_names_attribute, info_.class_names);
    hdf5::write_texts(file_, schema::target_names_attribute, info_.target_names);
    if (!info_.target_kind.empty()) hdf5::write_text(file_, schema::target_kind_attribute, info_.target_kind);
    hdf5::write_texts(file_, schema::feature_names_attribute, info_.feature_names);
    hdf5::write_floats(file_, schema::mean_attribute, info_.mean);
    hdf5::write_floats(file_, schema::std_attribute, info_.std);
    if (info_.frames > 0) hdf5::write_integer(file_, schema::frames_attribute, info_.frames);
    if (!source.empty()) hdf5::write_text(file_, schema::source_attribute, source);

    std::vector<hsize_t> dims{static_cast<hsize_t>(info_.samples)};
    if (info_.labelled) labels_ = create_table(schema::labels_dataset, H5T_STD_I64LE, dims);
    if (info_.targets > 0) {
        const std::array<hsize_t, 2> rows{dims.front(), static_cast<hsize_t>(info_.targets)};
        targets_ = create_table(schema::targets_dataset, H5T_IEEE_F32LE, rows);
    }
    if (paths == Paths::stored)
        paths_ = create_table(schema::paths_dataset, hdf5::variable_text_type().get(), dims);
    if (placements == Placements::stored)
        placements_ = create_table(schema::placements_dataset, H5T_IEEE_F64LE,
                                   std::array<hsize_t, 2>{dims.front(), placement_numbers});
    for (const std::int64_t dim : info_.sample_shape) dims.push_back(static_cast<hsize_t>(dim));
    samples_ =
        create_table(schema::samples_dataset, info_.dtype == DType::u8 ? H5T_STD_U8LE : H5T_IEEE_F32LE, dims);
}

/// One contiguous data set of shape `dims`, allocated at once and, where the library allows that, which is
/// not for texts of variable length, not filled: every byte is written anyway.
Handle DatasetWriter::create_table(const char* name, hid_t type, std::span<const hsize_t> dims) const {
    const Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose);
    const Handle layout(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_layout(layout.get(), H5D_CONTIGUOUS);
    H5Pset_alloc_time(layout.get(), H5D_ALLOC_TIME_EARLY);
    if (H5Tget_class(type) != H5T_STRING) H5Pset_fill_time(layout.get(), H5D_FILL_TIME_NEVER);
    H5Pset_obj_track_times(layout.get(), false);  // the same data give the same file
    Handle table(
        H5Dcreate2(file_.handle.get(), name, type, space.get(), H5P_DEFAULT, layout.get(), H5P_DEFAULT),
        H5Dclose);
    if (!table) fail_writing(hdf5::last_error());
    return table;
}

void DatasetWriter::require_labels(std::span<const std::int64_t> labels) const {
    for (std::size_t i = 0; i < labels.size(); ++i)
        if (labels[i] < 0 || labels[i] >= info_.classes)
            throw DataError(path_ + ": sample " + std::to_string(written_ + static_cast<std::int64_t>(i)) +
                            " has " + schema::label_outside(labels[i], info_.classes));
}

void DatasetWriter::require_targets(std::span<const float> targets, std::int64_t samples) const {
    if (static_cast<std::int64_t>(targets.size()) != samples * info_.targets)
        fail("cannot be written", std::to_string(targets.size()) + " targets are not " +
                                      std::to_string(info_.targets) + " for each of " +
                                      std::to_string(samples) + " samples");
    const auto bad = std::ranges::find_if_not(targets, [](float value) { return std::isfinite(value); });
    if (bad == targets.end()) return;
    const auto at = bad - targets.begin();
    throw DataError(path_ + ": sample " + std::to_string(written_ + at / info_.targets) + " has " +
                    schema::target_not_finite(info_, at % info_.targets, *bad));
}

void DatasetWriter::append(std::span<const std::byte> samples, std::span<const std::int64_t> labels,
                           std::span<const float> targets, std::span<const std::string> paths,
                           std::span<const SamplePlacement> placements) {
    end_if_stopped(path_);
    const auto count = info_.labelled ? static_cast<std::int64_t>(labels.size())
                                      : static_cast<std::int64_t>(samples.size()) / info_.sample_bytes();
    if (!info_.labelled && !labels.empty())
        fail("cannot be written", "there are labels for data without labels");
    if (static_cast<std::int64_t>(samples.size()) != count * info_.sample_bytes())
        fail("cannot be written", std::to_string(samples.size()) + " bytes are not " + std::to_string(count) +
                                      " samples of " + std::to_string(info_.sample_bytes()) + " bytes");
    if (written_ + count > info_.samples)
        fail("cannot be written", "more than the announced " + std::to_string(info_.samples) + " samples");
    require_labels(labels);
    require_targets(targets, count);
    if (paths_ && static_cast<std::int64_t>(paths.size()) != count)
        fail("cannot be written",
             std::to_string(paths.size()) + " paths are not those of " + std::to_string(count) + " samples");
    if (placements_ && std::ssize(placements) != count)
        fail("cannot be written", std::to_string(placements.size()) + " placements are not those of " +
                                      std::to_string(count) + " samples");
    const hdf5::QuietErrors quiet;
    const std::string reason =
        write_rows(samples_.get(), sample_type(), info_.sample_bytes(), {written_}, count, samples.data());
    if (!reason.empty()) fail_writing(reason);
    append_rest(count, labels, targets, paths, placements);
}

/// What samples have beside /samples, of the next `count` of them, which are then there.
void DatasetWriter::append_rest(std::int64_t count, std::span<const std::int64_t> labels,
                                std::span<const float> targets, std::span<const std::string> paths,
                                std::span<const SamplePlacement> placements) {
    std::string reason;
    if (info_.labelled)
        reason = write_rows(labels_.get(), H5T_NATIVE_INT64, sizeof(std::int64_t), {written_}, count,
                            std::as_bytes(labels).data());
    if (reason.empty() && info_.targets > 0)
        reason = write_rows(targets_.get(), H5T_NATIVE_FLOAT,
                            info_.targets * static_cast<std::int64_t>(sizeof(float)), {written_}, count,
                            std::as_bytes(targets).data());
    if (reason.empty() && paths_) reason = write_texts(paths_.get(), written_, paths);
    if (reason.empty() && placements_)
        reason = write_rows(placements_.get(), H5T_NATIVE_DOUBLE, sizeof(SamplePlacement), {written_}, count,
                            std::as_bytes(placements).data());
    if (!reason.empty()) fail_writing(reason);
    written_ += count;
}

void DatasetWriter::append_steps(std::span<const std::byte> steps) {
    end_if_stopped(path_);
    assert(info_.sample_shape.rank() == 2 && !info_.labelled);
    const std::int64_t bytes = info_.sample_bytes() / info_.sample_shape[0];
    const std::int64_t count = static_cast<std::int64_t>(steps.size()) / bytes;
    if (static_cast<std::int64_t>(steps.size()) != count * bytes || written_ >= info_.samples ||
        steps_ + count > info_.sample_shape[0])
        fail("cannot be written", std::to_string(steps.size()) + " bytes behind step " +
                                      std::to_string(steps_) + " of sample " + std::to_string(written_) +
                                      " are no steps of " + std::to_string(info_.samples) + " samples of " +
                                      to_string(info_.sample_shape));
    const hdf5::QuietErrors quiet;
    const std::string reason =
        write_rows(samples_.get(), sample_type(), bytes, {written_, steps_}, count, steps.data());
    if (!reason.empty()) fail_writing(reason);
    steps_ += count;
}

void DatasetWriter::end_sequence(std::span<const float> targets, std::span<const std::string> paths) {
    const std::int64_t bytes = info_.sample_bytes() / info_.sample_shape[0];
    const std::vector<std::byte> none(static_cast<std::size_t>(
        std::min(info_.sample_shape[0] - steps_, std::max<std::int64_t>(1, bytes_per_write / bytes)) *
        bytes));
    while (steps_ < info_.sample_shape[0])
        append_steps(std::span(none).first(
            std::min(none.size(), static_cast<std::size_t>((info_.sample_shape[0] - steps_) * bytes))));
    require_targets(targets, 1);
    append_rest(1, {}, targets, paths, {});
    steps_ = 0;
}

hid_t DatasetWriter::sample_type() const {
    return info_.dtype == DType::u8 ? H5T_NATIVE_UINT8 : H5T_NATIVE_FLOAT;
}

void DatasetWriter::commit() {
    if (written_ != info_.samples)
        fail("cannot be finished",
             std::to_string(written_) + " of " + std::to_string(info_.samples) + " samples were written");
    {
        const hdf5::QuietErrors quiet;
        if (!samples_.close() || !labels_.close() || !targets_.close() || !paths_.close() ||
            !placements_.close() || !file_.handle.close())
            fail_writing(hdf5::last_error());
    }
    try {
        temporary_->commit();
    } catch (const std::system_error& failure) {
        fail("cannot be written", failure.code().value());
    }
}

void DatasetWriter::fail_writing(const std::string& reason) const {
    throw RunError(path_ + ": writing failed: " + reason, "check the free space and the quota there");
}

void DatasetWriter::fail(const std::string& what, const std::string& reason) const {
    throw DataError(path_ + ": " + what + ": " + reason, "check the path");
}

void DatasetWriter::fail(const std::string& what, int error) const {
    const std::string reason = std::generic_category().message(error);
    if (is_failed_write(error)) fail_writing(reason);
    fail(what, reason);
}

}  // namespace tutti
