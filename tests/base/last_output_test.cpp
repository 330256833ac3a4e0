#include "tutti/base/last_output.hpp"

#include <array>
#include <cstdio>
#include <thread>

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace tutti {
namespace {

class Pipe {
  public:
    Pipe() { EXPECT_EQ(::pipe(ends_.data()), 0); }
    ~Pipe() {
        close_reader();
        ::close(ends_[1]);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;

    int writer() const { return ends_[1]; }
    void write(const char* text) const { EXPECT_EQ(::dprintf(ends_[1], "%s", text), 5); }
    void read() const {
        std::array<char, 16> bytes{};
        EXPECT_EQ(::read(ends_[0], bytes.data(), bytes.size()), 5);
    }
    int unread() const {
        int bytes = -1;
        EXPECT_EQ(::ioctl(ends_[1], FIONREAD, &bytes), 0);
        return bytes;
    }
    void close_reader() {
        if (ends_[0] >= 0) ::close(ends_[0]);
        ends_[0] = -1;
    }

  private:
    std::array<int, 2> ends_{-1, -1};
};

TEST(LastOutput, an_empty_pipe_needs_no_wait) {
    const Pipe pipe;
    EXPECT_TRUE(wait_until_read(pipe.writer(), 3600));
}

TEST(LastOutput, a_reader_is_waited_for) {
    const Pipe pipe;
    pipe.write("words");
    std::thread reader([&] { pipe.read(); });
    EXPECT_TRUE(wait_until_read(pipe.writer(), 3600));
    EXPECT_EQ(pipe.unread(), 0);
    reader.join();
}

TEST(LastOutput, one_that_never_reads_is_not_waited_for_for_ever) {
    const Pipe pipe;
    pipe.write("words");
    EXPECT_FALSE(wait_until_read(pipe.writer(), 0.01));
}

TEST(LastOutput, one_that_is_gone_is_not_waited_for) {
    Pipe pipe;
    pipe.write("words");
    pipe.close_reader();
    EXPECT_FALSE(wait_until_read(pipe.writer(), 3600));
}

TEST(LastOutput, a_file_has_no_reader_to_wait_for) {
    std::FILE* const file = std::tmpfile();
    ASSERT_NE(file, nullptr);
    EXPECT_GT(std::fputs("words", file), -1);
    std::fflush(file);
    EXPECT_TRUE(wait_until_read(::fileno(file), 3600));
    std::fclose(file);
}

}  // namespace
}  // namespace tutti
