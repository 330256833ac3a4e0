#pragma once
// What of a file the operating system holds in memory.

#include <string>

namespace tutti {

/// Asks the system to forget the file's pages, after writing those that were changed (fsync,
/// posix_fadvise(2) POSIX_FADV_DONTNEED). Pages that a process has mapped stay. Throws DataError when the
/// file cannot be opened.
void evict_from_page_cache(const std::string& path);

/// The share of the file's pages that are in memory, 0 to 1, as mincore(2) tells the file's owner; 1 to
/// others. Throws DataError when the file cannot be opened or mapped.
double share_in_page_cache(const std::string& path);

}  // namespace tutti
