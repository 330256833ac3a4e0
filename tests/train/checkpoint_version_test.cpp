// The format's version in a checkpoint: what an older program says of a file that it cannot read.
#include <gtest/gtest.h>
#include <hdf5.h>

#include "support/temp_dir.hpp"
#include "tutti/base/error.hpp"
#include "tutti/train/checkpoint.hpp"

namespace tutti {
namespace {

constexpr const char* version_name = "tutti_checkpoint_version";

class CheckpointVersion : public ::testing::Test {
  protected:
    std::int64_t stored() const {
        std::int64_t version = 0;
        open(H5F_ACC_RDONLY, [&](hid_t attribute) { H5Aread(attribute, H5T_NATIVE_INT64, &version); });
        return version;
    }
    void store(std::int64_t version) const {
        open(H5F_ACC_RDWR, [&](hid_t attribute) { H5Awrite(attribute, H5T_NATIVE_INT64, &version); });
    }
    std::string refusal() const {
        try {
            load_checkpoint(path_);
        } catch (const DataError& error) {
            return error.what();
        }
        return "";
    }

    test::TempDir directory_;
    const std::string path_ = directory_.path() + "/step-00000042.h5";

  private:
    template <class Function>
    void open(unsigned flags, const Function& use) const {
        const hid_t file = H5Fopen(path_.c_str(), flags, H5P_DEFAULT);
        const hid_t attribute = H5Aopen(file, version_name, H5P_DEFAULT);
        use(attribute);
        H5Aclose(attribute);
        H5Fclose(file);
    }
};

TEST_F(CheckpointVersion, IsNewerOnlyWithTheFieldThatOlderProgramsDoNotKnow) {
    Checkpoint checkpoint;
    save_checkpoint(path_, checkpoint);
    EXPECT_EQ(stored(), 2);
    EXPECT_EQ(load_checkpoint(path_).progress.unreadable, 0);
    checkpoint.progress.unreadable = 7;
    save_checkpoint(path_, checkpoint);
    EXPECT_EQ(stored(), 3);
    EXPECT_EQ(load_checkpoint(path_).progress.unreadable, 7);
}

TEST_F(CheckpointVersion, OfAnotherFormatIsRefused) {
    save_checkpoint(path_, {});
    store(99);
    EXPECT_NE(refusal().find("has checkpoint format 99, this program reads formats 2 and 3; use the version"),
              std::string::npos)
        << refusal();
}

TEST_F(CheckpointVersion, IsHashedLikeTheRest) {
    save_checkpoint(path_, {});
    store(3);
    EXPECT_NE(refusal().find("SHA-256 does not match"), std::string::npos) << refusal();
}

}  // namespace
}  // namespace tutti
