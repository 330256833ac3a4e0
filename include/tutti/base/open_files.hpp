#pragma once
// How many files a process may hold open.

#include <cstddef>
#include <string>

namespace tutti {

/// Lets this process open so many files beside those that it has open: raises its limit (RLIMIT_NOFILE, often
/// 1024) as far as the system lets it. Where that is not far enough nothing happens: opening will fail with
/// EMFILE. Any thread.
void allow_open_files(std::size_t more);

/// What a person may do about EMFILE: "raise the limit of open files, which is 1024: ulimit -n 4096".
std::string too_many_open_files_remedy();

}  // namespace tutti
