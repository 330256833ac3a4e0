#include "virtual_sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "hdf5_storage.hpp"
#include "tutti/base/error.hpp"

namespace tutti::hdf5 {
namespace {

namespace fs = std::filesystem;

using Numbers = std::array<hsize_t, H5S_MAX_RANK>;

/// By H5Pget_virtual_filename or H5Pget_virtual_dsetname.
std::string text_of(ssize_t (*get)(hid_t, size_t, char*, size_t), hid_t creation, std::size_t source) {
    const ssize_t length = get(creation, source, nullptr, 0);
    std::string text(length > 0 ? static_cast<std::size_t>(length) + 1 : 1, '\0');
    get(creation, source, text.data(), text.size());
    text.pop_back();
    return text;
}

/// Of a pattern for as many files as there are: %b stands for their number, %% for %.
std::string with_number(const std::string& pattern, hsize_t number) {
    std::string text;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
        if (next == 'b') text += std::to_string(number);
        if (next == '%') text += '%';
        if (next == 'b' || next == '%')
            ++i;
        else
            text += pattern[i];
    }
    return text;
}

/// Where the library would find it: below HDF5_VDS_PREFIX, as it is named, or beside the file that names it.
/// Empty: nowhere.
std::string found(const std::string& file, const fs::path& beside) {
    const char* const variable = std::getenv("HDF5_VDS_PREFIX");
    std::string prefix = variable == nullptr ? "" : variable;
    constexpr std::string_view origin = "${ORIGIN}";
    if (prefix.starts_with(origin))
        prefix = (beside / fs::path(prefix.substr(origin.size())).relative_path()).string();
    const fs::path given(file), below(prefix);
    for (const fs::path& place :
         {below / given, below / given.filename(), given, beside / given, beside / given.filename()}) {
        std::error_code none;
        if (fs::is_regular_file(place, none)) return place.string();
    }
    return {};
}

/// Which values of a virtual data set have a source.
class Coverage {
  public:
    explicit Coverage(const Table& table)
        : dims_(table.dims), covered_(H5Scopy(table.space.get()), H5Sclose) {
        H5Sselect_none(covered_.get());
    }

    /// Those that `selection` says. The number of files, of which each gives a block of them.
    hsize_t add(hid_t selection) {
        Numbers start{}, stride{}, count{}, block{};
        if (H5Sget_select_type(selection) != H5S_SEL_HYPERSLABS) {
            H5Sselect_all(covered_.get());
        } else if (H5Sis_regular_hyperslab(selection) > 0) {
            H5Sget_regular_hyperslab(selection, start.data(), stride.data(), count.data(), block.data());
            return add_regular(start, stride, count, block);
        } else {
            add_blocks(selection);
        }
        return 1;
    }

    hsize_t total() const {
        hsize_t values = 1;
        for (const std::int64_t dim : dims_) values *= static_cast<hsize_t>(dim);
        return values;
    }

    hsize_t values() const {
        Numbers start{}, extent{};
        for (std::size_t i = 0; i < dims_.size(); ++i) extent[i] = static_cast<hsize_t>(dims_[i]);
        const Numbers ones = all_ones();
        H5Sselect_hyperslab(covered_.get(), H5S_SELECT_AND, start.data(), nullptr, ones.data(),
                            extent.data());
        return static_cast<hsize_t>(H5Sget_select_npoints(covered_.get()));
    }

  private:
    static Numbers all_ones() {
        Numbers ones{};
        ones.fill(1);
        return ones;
    }

    /// Without end means to the end of what there is.
    hsize_t add_regular(const Numbers& start, const Numbers& stride, Numbers count, Numbers block) {
        hsize_t files = 1;
        for (std::size_t i = 0; i < dims_.size(); ++i) {
            const auto end = static_cast<hsize_t>(dims_[i]);
            const hsize_t left = end > start[i] ? end - start[i] : 0;
            if (count[i] == H5S_UNLIMITED) files = count[i] = (left + stride[i] - 1) / stride[i];
            if (block[i] == H5S_UNLIMITED) block[i] = left;
            if (count[i] == 0 || block[i] == 0) return 0;
        }
        H5Sselect_hyperslab(covered_.get(), H5S_SELECT_OR, start.data(), stride.data(), count.data(),
                            block.data());
        return files;
    }

    void add_blocks(hid_t selection) {
        const auto count = static_cast<std::size_t>(H5Sget_select_hyper_nblocks(selection));
        const std::size_t rank = dims_.size();
        std::vector<hsize_t> corners(2 * rank * count);
        H5Sget_select_hyper_blocklist(selection, 0, count, corners.data());
        const Numbers ones = all_ones();
        for (std::size_t k = 0; k < count; ++k) {
            const hsize_t* const first = corners.data() + 2 * rank * k;
            Numbers block{};
            for (std::size_t i = 0; i < rank; ++i) block[i] = first[rank + i] - first[i] + 1;
            H5Sselect_hyperslab(covered_.get(), H5S_SELECT_OR, first, nullptr, ones.data(), block.data());
        }
    }

    std::vector<std::int64_t> dims_;
    Handle covered_;
};

/// A virtual data set, and those that its sources are in turn.
class Check {
  public:
    Check(std::string path, std::string name) : path_(std::move(path)), name_(std::move(name)) {}

    void require(const Table& table, int depth = 0) {
        constexpr int deep = 16;  // in a circle
        const Handle creation(H5Dget_create_plist(table.data.get()), H5Pclose);
        if (H5Pget_layout(creation.get()) != H5D_VIRTUAL || depth == deep) return;
        std::size_t count = 0;
        H5Pget_virtual_count(creation.get(), &count);
        Coverage coverage(table);
        for (std::size_t i = 0; i < count; ++i) {
            const Handle to(H5Pget_virtual_vspace(creation.get(), i), H5Sclose),
                from(H5Pget_virtual_srcspace(creation.get(), i), H5Sclose);
            const hsize_t files = coverage.add(to.get());
            const std::string file = text_of(H5Pget_virtual_filename, creation.get(), i),
                              data = text_of(H5Pget_virtual_dsetname, creation.get(), i);
            for (hsize_t number = 0; number < files; ++number)
                require_source(table, with_number(file, number), with_number(data, number), from.get(),
                               depth);
        }
        if (const hsize_t values = coverage.values(); values < coverage.total())
            fail(fmt::format("of its {} values only {} are in one", coverage.total(), values));
    }

    std::vector<Handle> opened() { return std::move(opened_); }

  private:
    [[noreturn]] void fail(const std::string& what, const std::string& remedy = {}) const {
        throw DataError(path_ + ": " + name_ + " is put together from other files, and " + what +
                            "; HDF5 would read zeros there",
                        !remedy.empty()
                            ? remedy
                            : "bring it there, or give the files themselves: data.train: [A.h5, B.h5]");
    }

    /// `selection`: what of it is taken.
    void require_source(const Table& table, const std::string& file, const std::string& data, hid_t selection,
                        int depth) {
        const std::string holder = file_of(table.data.get());
        const auto [source_seen, is_new] = seen_.try_emplace({holder, file, data}, true);
        if (!is_new && source_seen->second)
            throw DataError(path_ + ": " + name_ + " is put together from other data, which lead back to " +
                                data + " of " + (file == "." ? holder : file) + " itself",
                            "write the values themselves");
        if (!is_new) return;
        const bool itself = file == ".";
        const std::string place = itself ? holder : found(file, fs::path(holder).parent_path());
        if (place.empty()) fail(file + " is not there");
        const Handle own(H5Iget_file_id(table.data.get()), H5Fclose),
            access(H5Fget_access_plist(own.get()), H5Pclose);
        H5Pset_fclose_degree(access.get(), H5F_CLOSE_WEAK);  // as the library
        Handle opened;
        if (!itself) opened = Handle(H5Fopen(place.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
        if (!itself && !opened) {
            const std::string reason = last_error();
            fail(place + " cannot be opened: " + reason,
                 reason.find("lock") == std::string::npos
                     ? std::string()
                     : "wait until it is written, or read without locks: export HDF5_USE_FILE_LOCKING=FALSE");
        }
        const hid_t source = itself ? own.get() : opened.get();
        Handle values(H5Dopen2(source, data.c_str(), H5P_DEFAULT), H5Dclose);
        if (!values) fail("there is no data set " + data + " in " + place);
        const Table found = table_of(std::move(values));
        const Storage storage = storage_of(found);
        // Of one that is still being written the part may be taken that is there.
        const bool whole =
            H5Sget_select_type(selection) == H5S_SEL_ALL ||
            H5Sget_select_npoints(selection) >= H5Sget_simple_extent_npoints(found.space.get());
        if (storage.empty || (whole && storage.known && !storage.complete))
            fail(fmt::format("{} of {} is {}, {}", data, place, describe(found), storage.missing));
        require(found, depth + 1);
        source_seen->second = false;
        if (!itself) opened_.push_back(std::move(opened));
    }

    std::string path_, name_;
    std::vector<Handle> opened_;
    /// By the file that names a source, and what it names: whether the source is being looked at. Of one that
    /// leads back to itself the library would read without end.
    std::map<std::tuple<std::string, std::string, std::string>, bool> seen_;
};

}  // namespace

std::vector<Handle> open_virtual_sources(const Table& table, const std::string& path,
                                         const std::string& name) {
    Check check(path, name);
    check.require(table);
    return check.opened();
}

}  // namespace tutti::hdf5
