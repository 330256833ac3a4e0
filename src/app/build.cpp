#include "build.hpp"

namespace tutti {
namespace {

bool is_known(const std::string& commit) {
    return !commit.empty() && commit != "unknown" && commit.back() != '+';
}

}  // namespace

std::string to_string(const Build& build) {
    return "tutti " + build.version + " (" + build.commit + ")";
}

bool differ(const Build& one, const Build& other) {
    if (one.version != other.version) return true;
    return is_known(one.commit) && is_known(other.commit) && one.commit != other.commit;
}

}  // namespace tutti
