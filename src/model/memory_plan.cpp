#include "tutti/model/memory_plan.hpp"

#include <algorithm>
#include <numeric>

namespace tutti {

MemoryPlan plan_memory(std::span<const Lifetime> buffers, std::size_t alignment) {
    const auto rounded = [&](std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
    std::vector<std::size_t> order(buffers.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });

    MemoryPlan plan;
    plan.offsets.assign(buffers.size(), 0);
    struct Placed {
        std::size_t offset, end, buffer;
    };
    std::vector<Placed> placed;  // ascending offsets
    for (const std::size_t i : order) {
        const Lifetime& buffer = buffers[i];
        std::size_t offset = 0;
        for (const Placed& other : placed) {
            const Lifetime& life = buffers[other.buffer];
            if (life.last < buffer.first || buffer.last < life.first) continue;
            if (offset + rounded(buffer.bytes) <= other.offset) break;
            offset = std::max(offset, other.end);
        }
        plan.offsets[i] = offset;
        const Placed mine{offset, offset + rounded(buffer.bytes), i};
        placed.insert(std::upper_bound(placed.begin(), placed.end(), mine,
                                       [](const Placed& a, const Placed& b) { return a.offset < b.offset; }),
                      mine);
        plan.bytes = std::max(plan.bytes, mine.end);
    }
    return plan;
}

}  // namespace tutti
