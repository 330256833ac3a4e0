#include "shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

namespace tutti {

SharedMemory::SharedMemory(std::size_t bytes) : bytes_(bytes), address_(MAP_FAILED) {}

SharedMemory::~SharedMemory() {
    if (address_ != MAP_FAILED) munmap(address_, bytes_);
    close_file();
}

bool SharedMemory::create(const std::string& host, Offer& offer) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    std::snprintf(offer.name.data(), offer.name.size(), "tutti-%d-%lld", static_cast<int>(getpid()),
                  static_cast<long long>(now));
    offer.process = getpid();
    std::memcpy(offer.host.data(), host.data(), std::min(host.size(), offer.host.size() - 1));
    file_ = memfd_create(offer.name.data(), MFD_CLOEXEC);
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(bytes_)) != 0 || !map()) return false;
    offer.file = file_;
    return true;
}

bool SharedMemory::open(const std::string& host, const Offer& offer) {
    if (offer.file < 0 || host != offer.host.data()) return false;
    const std::string path = "/proc/" + std::to_string(offer.process) + "/fd/" + std::to_string(offer.file);
    std::array<char, 128> target{};
    if (readlink(path.c_str(), target.data(), target.size() - 1) < 0 ||
        !std::string(target.data()).starts_with("/memfd:" + std::string(offer.name.data()) + " "))
        return false;
    file_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    struct stat status {};
    return file_ >= 0 && fstat(file_, &status) == 0 && status.st_size == static_cast<off_t>(bytes_) && map();
}

void SharedMemory::close_file() {
    if (file_ >= 0) close(file_);
    file_ = -1;
}

bool SharedMemory::map() {
    address_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    return address_ != MAP_FAILED;
}

}  // namespace tutti
