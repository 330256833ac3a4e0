#include "tutti/base/shape.hpp"

#include <fmt/ranges.h>

namespace tutti {

std::string to_string(const Shape& shape) {
    return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

}  // namespace tutti
