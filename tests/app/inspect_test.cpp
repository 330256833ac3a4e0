// What trainer inspect says of files that it cannot open.
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.hpp"
#include "support/error_message.hpp"
#include "support/files.hpp"
#include "support/temp_dir.hpp"
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
    const bool root = geteuid() == 0;  // who may read everything
    if (root) {
        ASSERT_EQ(seteuid(65534), 0);
    }
    const std::string message = refusal(at("mine.h5"));
    if (root) {
        ASSERT_EQ(seteuid(0), 0);
    }
    EXPECT_EQ(message, at("mine.h5") + ": Permission denied; check the path and its permissions");
}

}  // namespace
}  // namespace tutti
