#include "tutti/base/standard_error.hpp"

#include <array>
#include <cstdio>
#include <string>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tutti {
namespace {

// Of a socket of datagrams each write is one.
TEST(StandardError, GetsATextInOneWrite) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends.data()), 0);
    std::fflush(stderr);
    const int before = ::dup(STDERR_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    const std::string text = "error: " + std::string(5000, 'x') + "\nand more\n";
    write_standard_error(text);
    ::dup2(before, STDERR_FILENO);
    std::string read(8192, '\0');
    const auto count = ::recv(ends[0], read.data(), read.size(), MSG_DONTWAIT);
    for (const int descriptor : {before, ends[0], ends[1]}) ::close(descriptor);
    ASSERT_GE(count, 0);
    EXPECT_EQ(read.substr(0, static_cast<std::size_t>(count)), text);
}

}  // namespace
}  // namespace tutti
