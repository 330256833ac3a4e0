#pragma once
// A directory of its own for one test, removed with everything in it.

#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace tutti::test {

/// Made under the system's temporary directory.
class TempDir {
  public:
    TempDir() : path_((std::filesystem::temp_directory_path() / "tutti-XXXXXX").string()) {
        if (mkdtemp(path_.data()) == nullptr)
            throw std::system_error(errno, std::generic_category(), "mkdtemp " + path_);
    }
    ~TempDir() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;

    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

}  // namespace tutti::test
