#pragma once
// Short ways to parse a configuration and to see how one is refused.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/base/error.hpp"

namespace tutti {

inline Config parse(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
    return parse_config(yaml, "jobs/x.yaml", overrides);
}

/// The message with which `yaml` is refused, or "accepted".
inline std::string refusal(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
    try {
        parse(yaml, overrides);
        return "accepted";
    } catch (const UsageError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "the message is not one line";
        return error.what();
    }
}

/// The message with which one override over an empty file is refused, without its "command line: ".
inline std::string override_refusal(const std::string& argument) {
    const std::string message = refusal("", {argument});
    const std::string prefix = "command line: ";
    return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

}  // namespace tutti
