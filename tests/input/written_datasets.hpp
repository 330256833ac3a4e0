#pragma once
// A folder of data sets that a test writes.

#include <gtest/gtest.h>

#include <string>

#include "hdf5_file.hpp"
#include "support/temp_dir.hpp"

namespace tutti::test {

class WrittenDatasets : public testing::Test {
  protected:
    /// Its path.
    std::string write(const std::string& name, const ImageFile& file) const {
        file.write(dir_.path() + "/" + name);
        return dir_.path() + "/" + name;
    }

  private:
    TempDir dir_;
};

}  // namespace tutti::test
