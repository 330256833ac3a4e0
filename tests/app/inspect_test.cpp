// What trainer inspect says of files that it cannot open, and of data that may be meant otherwise.
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/stat.h>

#include "commands.hpp"
#include "support/error_message.hpp"
#include "support/files.hpp"
#include "support/temp_dir.hpp"
#include "support/unprivileged.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

class Inspect : public testing::Test {
  protected:
    void SetUp() override { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }
    std::string at(const std::string& name) const { return dir_.path() + "/" + name; }
    static std::string refusal(const std::string& path) {
        return test::message_of<DataError>([&] { inspect_command({path}); });
    }
    const test::TempDir dir_;
};

TEST_F(Inspect, a_file_that_is_being_written_is_not_called_damaged) {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    const hid_t file = H5Fcreate(at("open.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    ASSERT_GE(file, 0);
    H5Fflush(file, H5F_SCOPE_GLOBAL);
    // As another process sees it.
    test::write_file(at("seen.h5"), test::read_file(at("open.h5")));
    H5Fclose(file);
    H5Pclose(access);
    const std::string message = refusal(at("seen.h5"));
    EXPECT_CONTAINS(message, at("seen.h5") + ": HDF5 cannot open it: file is already open for write");
    EXPECT_CONTAINS(message, "; wait until what writes it is done; where that was ended, make it again");
}

TEST_F(Inspect, a_file_that_may_not_be_read_is_not_called_another_kind) {
    test::write_file(at("mine.h5"), "text");
    ASSERT_EQ(chmod(at("mine.h5").c_str(), 0), 0);
    ASSERT_EQ(chmod(dir_.path().c_str(), 0755), 0);
    std::string message;
    {
        const test::Unprivileged reader;
        message = refusal(at("mine.h5"));
    }
    EXPECT_EQ(message, at("mine.h5") + ": Permission denied; check the path and its permissions");
}

/// One black image of this shape, as h5py would store it.
void write_image(const std::string& path, const std::vector<hsize_t>& shape) {
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(file, 0);
    const hid_t one = H5Screate(H5S_SCALAR), text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, 8);
    const auto attribute = [&](const char* name, hid_t type, const void* value) {
        const hid_t made = H5Acreate2(file, name, type, one, H5P_DEFAULT, H5P_DEFAULT);
        H5Awrite(made, type, value);
        H5Aclose(made);
    };
    const int number = 1;
    attribute("tutti_schema", text, "samples");
    attribute("tutti_schema_version", H5T_NATIVE_INT, &number);
    attribute("classes", H5T_NATIVE_INT, &number);
    const auto table = [&](const char* name, hid_t type, const std::vector<hsize_t>& dims) {
        const hid_t space = H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
        const hid_t made = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        std::vector<char> zeros(1 << 16);
        H5Dwrite(made, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros.data());
        H5Dclose(made);
        H5Sclose(space);
    };
    table("labels", H5T_NATIVE_INT, {1});
    table("samples", H5T_NATIVE_UINT8, {1, shape[0], shape[1], shape[2]});
    H5Tclose(text);
    H5Sclose(one);
    H5Fclose(file);
}

TEST_F(Inspect, images_whose_channels_seem_to_come_first_are_warned_of) {
    const auto said = [&](const std::vector<hsize_t>& shape) {
        write_image(at("data.h5"), shape);
        testing::internal::CaptureStderr();
        testing::internal::CaptureStdout();
        inspect_command({at("data.h5")});
        testing::internal::GetCapturedStdout();
        return testing::internal::GetCapturedStderr();
    };
    EXPECT_CONTAINS(said({3, 32, 32}), "warning: " + at("data.h5") +
                                           ": samples are [3, 32, 32], taken for images of 3 x 32 pixels "
                                           "with 32 channels; if their channels come first, store them as ");
    EXPECT_EQ(said({32, 32, 3}), "");
}

}  // namespace
}  // namespace tutti
