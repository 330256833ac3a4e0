#include "tutti/input/sample_paths.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <optional>
#include <utility>

#include "dataset_file.hpp"
#include "hdf5_storage.hpp"
#include "hdf5_table.hpp"
#include "hdf5_texts.hpp"
#include "schema.hpp"
#include "tutti/base/utf8.hpp"

namespace tutti {
namespace {

using hdf5::Handle;
using hdf5::Table;

constexpr std::int64_t bytes_per_read = std::int64_t{1} << 20;
constexpr std::int64_t texts_per_read = 4096, first_texts = 64;

std::string write_or_remove() {
    return "write it again, or remove it, in h5py with del file['paths'] (data/README.md)";
}

/// Whether /paths is text [N]: what else a file has of that name is somebody else's, and left alone.
/// DataError: a link that leads nowhere.
bool has_paths(const hdf5::File& file) {
    if (!hdf5::has_table(file, schema::paths_dataset)) return false;
    const Handle access(H5Pcreate(H5P_LINK_ACCESS), H5Pclose);
    H5Pset_elink_fapl(access.get(), hdf5::file_access().get());
    const Handle object(H5Oopen(file.handle.get(), schema::paths_dataset, access.get()), H5Oclose);
    if (!object) {
        const std::string reason = hdf5::last_error();
        schema::fail(file.path, std::string(schema::paths_dataset) + " cannot be opened: " + reason,
                     write_or_remove());
    }
    if (H5Iget_type(object.get()) != H5I_DATASET) return false;
    const Table table = hdf5::open_table(file, schema::paths_dataset, write_or_remove());
    return H5Tget_class(table.type.get()) == H5T_STRING && table.dims.size() == 1;
}

/// /paths of one file.
class PathColumn {
  public:
    PathColumn(const hdf5::File& file, std::int64_t samples)
        : path_(file.path), table_(hdf5::open_table(file, schema::paths_dataset, write_or_remove())) {
        if (table_.dims.front() != samples)
            fail(" has " + std::to_string(table_.dims.front()) + " entries, but /samples has " +
                 std::to_string(samples));
        const hdf5::Storage storage = hdf5::storage_of(table_);
        if (!storage.complete) fail(" is " + hdf5::describe(table_) + ", " + storage.missing);
        const hid_t type = table_.type.get();
        variable_ = H5Tis_variable_str(type) > 0;
        if (!variable_) at_once_ = fitting(static_cast<std::int64_t>(H5Tget_size(type)));
        require_readable();
    }

    void read(std::int64_t first, std::int64_t count, std::vector<std::string>& to) const {
        for (std::int64_t at = first; at < first + count; at += at_once_) {
            std::vector<std::string> piece = read_piece(at, std::min(at_once_, first + count - at));
            to.insert(to.end(), std::move_iterator(piece.begin()), std::move_iterator(piece.end()));
        }
    }

  private:
    static std::int64_t fitting(std::int64_t bytes) {
        return std::clamp<std::int64_t>(bytes_per_read / std::max<std::int64_t>(bytes, 1), 1, texts_per_read);
    }

    /// All of them, once: a file whose end is damaged is to be refused before much is computed. Of texts of
    /// variable length that tells how many to read at once: few to begin with.
    void require_readable() {
        std::int64_t now = variable_ ? first_texts : at_once_;
        for (std::int64_t at = 0; at < table_.dims.front();) {
            const std::vector<std::string> piece = read_piece(at, std::min(now, table_.dims.front() - at));
            const auto count = static_cast<std::int64_t>(piece.size());
            at += count;
            if (!variable_) continue;
            std::int64_t bytes = 0;
            for (const std::string& text : piece) bytes += static_cast<std::int64_t>(text.size());
            at_once_ = std::min(at_once_, fitting(bytes / count));
            now = std::min(4 * now, at_once_);
        }
    }

    static std::vector<std::string> shown(std::vector<std::string> texts) {
        for (std::string& text : texts)
            if (!is_utf8(text)) text = as_utf8(text);
        return texts;
    }

    std::vector<std::string> read_piece(std::int64_t first, std::int64_t count) const {
        const auto start = static_cast<hsize_t>(first), size = static_cast<hsize_t>(count);
        const hid_t type = table_.type.get();
        const Handle memory(H5Screate_simple(1, &size, nullptr), H5Sclose);
        const Handle place(H5Scopy(table_.space.get()), H5Sclose);
        H5Sselect_hyperslab(place.get(), H5S_SELECT_SET, &start, nullptr, &size, nullptr);
        const auto read_into = [&](void* values) {
            if (H5Dread(table_.data.get(), type, memory.get(), place.get(), H5P_DEFAULT, values) >= 0) return;
            const std::string reason = hdf5::last_error();
            fail(" cannot be read: " + reason);
        };
        if (variable_) {
            hdf5::VariableTexts texts(type, memory.get(), static_cast<std::size_t>(count));
            read_into(texts.pointers());
            return shown(texts.copy());
        }
        std::string bytes(static_cast<std::size_t>(count) * H5Tget_size(type), '\0');
        read_into(bytes.data());
        return shown(hdf5::fixed_texts(type, bytes));
    }

    [[noreturn]] void fail(const std::string& problem) const {
        schema::fail(path_, schema::paths_dataset + problem, write_or_remove());
    }

    std::string path_;
    Table table_;
    bool variable_ = false;
    std::int64_t at_once_ = texts_per_read;
};

struct Part {
    std::int64_t begin = 0, samples = 0;
    std::optional<PathColumn> paths;
};

class PathsOfFiles final : public SamplePaths {
  public:
    explicit PathsOfFiles(std::vector<Part> parts) : parts_(std::move(parts)) {}

    std::int64_t samples() const override { return parts_.back().begin + parts_.back().samples; }

    std::vector<std::string> read(std::int64_t first, std::int64_t count) const override {
        assert(first >= 0 && count >= 0 && first + count <= samples());
        const hdf5::QuietErrors quiet;
        std::vector<std::string> texts;
        texts.reserve(static_cast<std::size_t>(count));
        for (const Part& part : parts_) {
            const std::int64_t begin = std::max(first, part.begin);
            const std::int64_t end = std::min(first + count, part.begin + part.samples);
            if (begin >= end) continue;
            if (part.paths)
                part.paths->read(begin - part.begin, end - begin, texts);
            else
                texts.resize(texts.size() + static_cast<std::size_t>(end - begin));
        }
        return texts;
    }

  private:
    std::vector<Part> parts_;
};

}  // namespace

std::unique_ptr<SamplePaths> open_sample_paths(std::span<const std::string> files) {
    const hdf5::QuietErrors quiet;
    std::vector<Part> parts;
    std::int64_t begin = 0;
    for (const std::string& path : files) {
        const hdf5::File file = open_dataset_file(path);
        require_schema(file);
        const Table samples = hdf5::open_table(file, schema::samples_dataset);
        if (samples.dims.empty()) schema::fail(path, "/samples is " + hdf5::describe(samples));
        parts.push_back({begin, samples.dims.front(), {}});
        Part& part = parts.back();
        if (has_paths(file)) part.paths.emplace(file, part.samples);
        begin += part.samples;
    }
    if (std::ranges::none_of(parts, [](const Part& part) { return part.paths.has_value(); })) return nullptr;
    return std::make_unique<PathsOfFiles>(std::move(parts));
}

}  // namespace tutti
