#include "tutti/base/cache_directory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace tutti {
namespace {

/// Sets or removes variables of the environment and puts them back.
class WithEnvironment {
  public:
    explicit WithEnvironment(const std::map<std::string, std::string>& values) {
        for (const char* name : {"TUTTI_CACHE", "XDG_CACHE_HOME", "HOME", "TMPDIR"}) {
            const char* before = std::getenv(name);
            before_[name] = before ? std::optional<std::string>(before) : std::nullopt;
            const auto found = values.find(name);
            set(name, found == values.end() ? std::nullopt : std::optional(found->second));
        }
    }
    ~WithEnvironment() {
        for (const auto& [name, value] : before_) set(name, value);
    }

  private:
    static void set(const std::string& name, const std::optional<std::string>& value) {
        if (value)
            setenv(name.c_str(), value->c_str(), 1);
        else
            unsetenv(name.c_str());
    }
    std::map<std::string, std::optional<std::string>> before_;
};

std::string found_with(const std::map<std::string, std::string>& values) {
    const WithEnvironment environment(values);
    return cache_directory().string();
}

TEST(CacheDirectory, IsTheFirstThatTheEnvironmentNames) {
    EXPECT_EQ(found_with({{"TUTTI_CACHE", "/a"}, {"XDG_CACHE_HOME", "/b"}, {"HOME", "/c"}}), "/a");
    EXPECT_EQ(found_with({{"XDG_CACHE_HOME", "/b"}, {"HOME", "/c"}}), "/b/tutti");
    EXPECT_EQ(found_with({{"HOME", "/c"}}), "/c/.cache/tutti");
    EXPECT_EQ(found_with({{"TUTTI_CACHE", ""}, {"XDG_CACHE_HOME", ""}, {"HOME", "/c"}}), "/c/.cache/tutti");
    EXPECT_TRUE(found_with({}).ends_with("/tutti-" + std::to_string(getuid()))) << "one for each user";
}

TEST(CacheDirectory, IsNamedThoughTheFolderForTemporariesIsNone) {
    EXPECT_EQ(found_with({{"TMPDIR", "/dev/null"}}), "/tmp/tutti-" + std::to_string(getuid()));
}

}  // namespace
}  // namespace tutti
