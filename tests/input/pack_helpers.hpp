#pragma once
// Files to pack, in a folder of their own, and what comes of them.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "input/image_file.hpp"
#include "support/temp_dir.hpp"
#include "tutti/base/error.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/input/pack.hpp"

namespace tutti::test {

class Pack : public testing::Test {
  protected:
    std::string at(const std::string& name) const { return dir_.path() + "/" + name; }
    void write(const std::string& name, const std::string& bytes) const {
        std::filesystem::create_directories(std::filesystem::path(at(name)).parent_path());
        std::ofstream(at(name), std::ios::binary) << bytes;
    }
    template <class Function>
    static std::string refusal(const Function& function) {
        try {
            function();
        } catch (const Error& error) {
            return std::to_string(static_cast<int>(error.code())) + " " + error.what();
        }
        return "accepted";
    }
    std::vector<int> sample(const Dataset& data, std::int64_t index) const {
        std::vector<std::byte> bytes(static_cast<std::size_t>(data.info().sample_bytes()));
        std::vector<std::int64_t> labels(1);
        data.read(std::vector{index}, bytes, labels);
        std::vector<int> values;
        for (const std::byte byte : bytes) values.push_back(static_cast<int>(byte));
        return values;
    }

  private:
    TempDir dir_;
};

/// Of images in the folder "in".
class PackImages : public Pack {
  protected:
    void SetUp() override {
        if (!no_image_files().empty()) GTEST_SKIP() << no_image_files();
        options_.folder = at("in");
        options_.output = at("out.h5");
    }
    PackImagesOptions options_;
};

/// Of those of a list.
class PackListed : public PackImages {
  protected:
    PackListed() { options_.csv = at("list.csv"); }
    DatasetInfo pack(const std::string& table) const {
        write("list.csv", table);
        return pack_images(options_);
    }
};

}  // namespace tutti::test
