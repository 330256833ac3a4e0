#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <sstream>
#include <string_view>

#include "tutti/base/memory_use.hpp"

namespace tutti {
namespace {

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

/// Lines of "name number …".
std::optional<std::int64_t> named(const std::string& path, std::string_view wanted) {
    std::ifstream lines(path);
    std::string name, rest;
    while (lines >> name) {
        std::int64_t value = 0;
        if (name == wanted && lines >> value) return value;
        std::getline(lines, rest);
    }
    return std::nullopt;
}

/// A file of one number; nothing for "max", too.
std::optional<std::int64_t> number(const std::string& path) {
    std::ifstream file(path);
    std::int64_t value = 0;
    if (file >> value) return value;
    return std::nullopt;
}

/// How a version of control groups tells a group's memory.
struct Names {
    std::initializer_list<const char*> limits;
    const char* usage;
    std::initializer_list<const char*> files;  ///< in memory.stat, of the group and those inside
};
const Names version_1{
    {"/memory.limit_in_bytes"}, "/memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
const Names version_2{{"/memory.max", "/memory.high"}, "/memory.current", {"inactive_file", "active_file"}};
/// memory.high only slows a group down.
const Names hard_version_2{{"/memory.max"}, "/memory.current", {"inactive_file", "active_file"}};
const Names swap_version_2{{"/memory.swap.max"}, "/memory.swap.current", {}};
/// Version 1 limits memory and swap together; what that leaves of swap is not told.
const Names swap_version_1{{}, "/memory.usage_in_bytes", {}};

std::int64_t left_in(const std::string& group, const Names& names) {
    std::int64_t limit = unlimited;
    for (const char* const name : names.limits) limit = std::min(limit, number(group + name).value_or(limit));
    const std::optional<std::int64_t> usage = number(group + names.usage);
    if (limit == unlimited || !usage) return unlimited;
    std::int64_t held = *usage;  // what cannot be taken back
    for (const char* const name : names.files) held -= named(group + "/memory.stat", name).value_or(0);
    return std::max<std::int64_t>(limit - std::max<std::int64_t>(held, 0), 0);
}

/// Of the group and all around it. A container often sees its own group as the outermost: the path is not
/// there then, but the outermost is.
std::int64_t left_up_from(const std::string& top, std::string group, const Names& names) {
    std::int64_t left = unlimited;
    while (true) {
        while (group.ends_with('/')) group.pop_back();
        left = std::min(left, left_in(top + group, names));
        if (group.empty()) return left;
        const std::size_t parent_ends = group.rfind('/');
        group.erase(parent_ends == std::string::npos ? 0 : parent_ends);
    }
}

bool lists_memory(const std::string& controllers) {
    std::istringstream list(controllers);
    for (std::string name; std::getline(list, name, ',');)
        if (name == "memory") return true;
    return false;
}

/// Of all control groups of this process. Lines of /proc/self/cgroup are "number:controllers:path", without
/// controllers for version 2.
std::int64_t left_in_groups(const std::string& root, const Names& names_1, const Names& names_2) {
    const std::string top = root + "/sys/fs/cgroup";
    std::ifstream lines(root + "/proc/self/cgroup");
    std::int64_t left = unlimited;
    std::string id, controllers, path;
    while (std::getline(lines, id, ':') && std::getline(lines, controllers, ':') && std::getline(lines, path))
        if (controllers.empty())
            left = std::min(left, left_up_from(top, path, names_2));
        else if (lists_memory(controllers))
            left = std::min(left, left_up_from(top + "/memory", path, names_1));
    return left;
}

}  // namespace

std::optional<std::int64_t> available_bytes(const std::string& root) {
    std::int64_t available = left_in_groups(root, version_1, version_2);
    if (const std::optional<std::int64_t> kilobytes = named(root + "/proc/meminfo", "MemAvailable:"))
        available = std::min(available, *kilobytes * 1024);
    return available == unlimited ? std::nullopt : std::optional(available);
}

bool group_limits_memory(const std::string& root) {
    constexpr std::int64_t no_limit = std::int64_t{1} << 60;  // version 1 tells a number near 2^63 for none
    return left_in_groups(root, version_1, hard_version_2) < no_limit;
}

std::optional<std::int64_t> obtainable_bytes(const std::string& root) {
    const std::string host = root + "/proc/meminfo";
    std::int64_t memory = left_in_groups(root, version_1, hard_version_2);
    if (const std::optional<std::int64_t> kilobytes = named(host, "MemAvailable:"))
        memory = std::min(memory, *kilobytes * 1024);
    if (memory == unlimited) return std::nullopt;
    const std::int64_t swap = named(host, "SwapFree:").value_or(0) * 1024;
    return memory + std::min(swap, left_in_groups(root, swap_version_1, swap_version_2));
}

}  // namespace tutti
