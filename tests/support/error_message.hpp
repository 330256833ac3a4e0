#pragma once
// What an error says.

#include <gtest/gtest.h>

#include <exception>
#include <string>

namespace tutti::test {

/// what() of the ErrorType that action() throws; another exception, or none, fails the test.
template <class ErrorType, class Action>
std::string message_of(const Action& action) {
    try {
        action();
    } catch (const ErrorType& error) {
        return error.what();
    } catch (const std::exception& error) {
        ADD_FAILURE() << "another exception: " << error.what();
        return {};
    }
    ADD_FAILURE() << "no exception";
    return {};
}

}  // namespace tutti::test

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
