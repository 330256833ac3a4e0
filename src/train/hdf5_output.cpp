#include "hdf5_output.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "tutti/base/atomic_file.hpp"

namespace tutti::store {
namespace {

/// What the driver is told by the access property list.
struct Target {
    int descriptor;
    int* error;
};

/// HDF5 knows the first member only (HDF5 Virtual File Layer, "Programming Note for C++ Developers").
struct DriverFile {
    H5FD_t base;
    Target target;
    haddr_t end_of_allocation;
    haddr_t end_of_file;
};

DriverFile& self(H5FD_t* file) {
    return *reinterpret_cast<DriverFile*>(file);
}
const DriverFile& self(const H5FD_t* file) {
    return *reinterpret_cast<const DriverFile*>(file);
}

H5FD_t* open_target(const char*, unsigned, hid_t access, haddr_t) {
    const auto* target = static_cast<const Target*>(H5Pget_driver_info(access));
    if (target == nullptr) return nullptr;
    return &(new DriverFile{{}, *target, 0, 0})->base;
}

herr_t close_target(H5FD_t* file) {
    delete &self(file);
    return 0;
}

/// What HDF5 may do to spare small writes.
herr_t query(const H5FD_t*, unsigned long* flags) {
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA;
    return 0;
}

haddr_t end_of_allocation(const H5FD_t* file, H5FD_mem_t) {
    return self(file).end_of_allocation;
}

herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t, haddr_t address) {
    self(file).end_of_allocation = address;
    return 0;
}

haddr_t end_of_file(const H5FD_t* file, H5FD_mem_t) {
    return self(file).end_of_file;
}

/// Beyond the end there are zeros.
herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size, void* buffer) {
    auto* bytes = static_cast<char*>(buffer);
    while (size > 0) {
        const ssize_t n = ::pread(self(file).target.descriptor, bytes, size, static_cast<off_t>(address));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        bytes += n;
        address += static_cast<haddr_t>(n);
        size -= static_cast<std::size_t>(n);
    }
    std::memset(bytes, 0, size);
    return 0;
}

/// After the first error nothing more is written.
herr_t write(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size, const void* buffer) {
    DriverFile& driver = self(file);
    driver.end_of_file = std::max(driver.end_of_file, address + size);
    const auto* bytes = static_cast<const char*>(buffer);
    while (size > 0 && *driver.target.error == 0) {
        const ssize_t n = ::pwrite(driver.target.descriptor, bytes, size, static_cast<off_t>(address));
        if (n < 0) {
            if (errno != EINTR) *driver.target.error = errno;
            continue;
        }
        bytes += n;
        address += static_cast<haddr_t>(n);
        size -= static_cast<std::size_t>(n);
    }
    return 0;
}

/// The file must be as long as its superblock says, or it looks cut off.
herr_t truncate(H5FD_t* file, hid_t, hbool_t) {
    DriverFile& driver = self(file);
    if (driver.end_of_file == driver.end_of_allocation) return 0;
    driver.end_of_file = driver.end_of_allocation;
    int& error = *driver.target.error;
    if (error == 0 && ::ftruncate(driver.target.descriptor, static_cast<off_t>(driver.end_of_file)) != 0)
        error = errno;
    return 0;
}

Object register_driver() {
    H5FD_class_t driver{};
    driver.name = "tutti_output";
    driver.maxaddr = static_cast<haddr_t>(std::numeric_limits<off_t>::max());
    driver.fc_degree = H5F_CLOSE_STRONG;
    driver.fapl_size = sizeof(Target);
    driver.open = open_target;
    driver.close = close_target;
    driver.query = query;
    driver.get_eoa = end_of_allocation;
    driver.set_eoa = set_end_of_allocation;
    driver.get_eof = end_of_file;
    driver.read = read;
    driver.write = write;
    driver.truncate = truncate;
    return {H5FDregister(&driver), H5FDunregister};
}

Object create(hid_t driver, int descriptor, int* error, const std::string& name) {
    const Object access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    const Target target{descriptor, error};
    store::check(H5Pset_driver(access, driver, &target));
    store::check(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG));
    // From version 1.8 on every piece of metadata has a checksum, so damage there is an error and not a
    // guess.
    store::check(H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST));
    const Object creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
    store::check(H5Pset_obj_track_times(creation, false));  // the same content gives the same file
    return {H5Fcreate(name.c_str(), H5F_ACC_TRUNC, creation, access), H5Fclose};
}

}  // namespace

OutputFile::OutputFile(int descriptor, const std::string& name)
    : error_(std::make_unique<int>(0)),
      driver_(register_driver()),
      file_(create(driver_, descriptor, error_.get(), name)) {}

void OutputFile::check() const {
    if (*error_ != 0) file::throw_errno(*error_);
}

void OutputFile::close() {
    file_.close();
    check();
}

}  // namespace tutti::store
