#include "files_in_memory.hpp"

#include <algorithm>

namespace tutti {

FileMemory file_memory_of_rank(std::optional<std::int64_t> available, std::int64_t ranks) {
    FileMemory memory = file_memory(available);
    memory.map = std::max(memory.map, memory.bring_in / static_cast<std::uint64_t>(ranks));
    return memory;
}

std::int64_t ranks_beside(std::span<const RankPlace> places, std::size_t rank) {
    return std::ranges::count(places, places[rank].host, &RankPlace::host);
}

}  // namespace tutti
