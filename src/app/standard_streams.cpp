#include "standard_streams.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <system_error>

#include "tutti/base/error.hpp"

namespace tutti {

void fill_closed_streams() noexcept {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        // The lowest free number is taken, which is this one.
        if (fcntl(stream, F_GETFD) < 0) open("/dev/null", O_RDWR);
}

void require_printed() {
    errno = 0;
    std::cout.flush();
    const bool flushed = std::fflush(stdout) == 0;
    const int reason = errno;
    if (flushed && std::cout && std::ferror(stdout) == 0) return;
    throw output_error(reason);
}

RunError output_error(int reason) {
    return RunError("standard output is not complete" +
                        (reason != 0 ? ": " + std::generic_category().message(reason) : ""),
                    "check the free space and quota where it goes");
}

}  // namespace tutti
