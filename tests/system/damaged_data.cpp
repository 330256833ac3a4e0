// Makes a compressed data set, of which chunks may be damaged on the disk, for the system tests:
//   damaged_data OUT.h5 SAMPLES CLASSES SIDE CHUNK [DAMAGED CHUNK]...
// Sample i has the class i mod CLASSES, a bright bar at the place of its class, and noise of its own.
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "input/hdf5_file.hpp"

namespace {

using tutti::hdf5::Handle;

std::vector<std::uint8_t> images(std::int64_t samples, std::int64_t classes, std::int64_t side) {
    const std::int64_t pixels = side * side, bar = pixels / classes;
    std::vector<std::uint8_t> bytes;
    std::uint32_t state = 1;
    for (std::int64_t i = 0; i < samples; ++i)
        for (std::int64_t k = 0; k < pixels; ++k) {
            state = state * 1664525 + 1013904223;
            const std::uint32_t noise = state >> 26;
            bytes.push_back(static_cast<std::uint8_t>(k / bar == i % classes ? 255 - noise : noise));
        }
    return bytes;
}

/// The bytes in the middle of the stored chunk that begins at this sample become others.
void damage(const std::string& path, std::int64_t sample) {
    haddr_t offset = 0;
    hsize_t bytes = 0;
    {
        const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
        const Handle data(H5Dopen2(file.get(), "/samples", H5P_DEFAULT), H5Dclose);
        const hsize_t at[] = {static_cast<hsize_t>(sample), 0, 0, 0};
        unsigned filters = 0;
        if (H5Dget_chunk_info_by_coord(data.get(), at, &filters, &offset, &bytes) < 0 || bytes < 64)
            throw std::runtime_error("there is no such chunk");
    }
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset + bytes / 2));
    file.write("damagedamagedamage", 16);
    if (!file) throw std::runtime_error("cannot write");
}

}  // namespace

int main(int count, char** words) {
    if (count < 6) return 2;
    const std::string path = words[1];
    const std::int64_t samples = std::atoll(words[2]), classes = std::atoll(words[3]),
                       side = std::atoll(words[4]), chunk = std::atoll(words[5]);
    try {
        {
            tutti::test::Hdf5File file(path);
            file.text("tutti_schema", "samples");
            file.integer("tutti_schema_version", 1);
            file.integer("classes", classes);
            std::vector<std::int64_t> labels;
            for (std::int64_t i = 0; i < samples; ++i) labels.push_back(i % classes);
            const auto n = static_cast<hsize_t>(samples), s = static_cast<hsize_t>(side);
            file.table("labels", H5T_STD_I64LE, H5T_NATIVE_INT64, {n}, labels.data());
            file.table("samples", H5T_STD_U8LE, H5T_NATIVE_UINT8, {n, s, s, 1},
                       images(samples, classes, side).data(), [&](hid_t layout) {
                           const hsize_t dims[] = {static_cast<hsize_t>(chunk), s, s, 1};
                           H5Pset_chunk(layout, 4, dims);
                           H5Pset_deflate(layout, 6);
                       });
        }
        for (int i = 6; i < count; ++i) damage(path, std::atoll(words[i]) * chunk);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "damaged_data: %s\n", error.what());
        return 1;
    }
}
