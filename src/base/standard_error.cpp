#include "tutti/base/standard_error.hpp"

#include <cstdio>

namespace tutti {

void write_standard_error(std::string_view text) noexcept {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
}

}  // namespace tutti
