// Compiled without -fsanitize=thread, as the scheduler is: products touch no memory of the kernel's.
#include "warp_matrix.hpp"

#include <string>

namespace tutti::kcpu {

void want_all_lanes(const Exchange& exchange, const char* what) {
    if (exchange.lanes != ~0u) fail(std::string(what) + " needs all lanes of the warp");
}

void multiply_matrices(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                       const Place& place) {
    const auto both = [](std::uint32_t low, std::uint32_t high) {
        return low | static_cast<std::uint64_t>(high) << 32;
    };
    const std::uint64_t mine[] = {both(a[0], a[1]), both(a[2], a[3]), both(b[0], b[1])};
    const Exchange all = exchange(WarpOperation::multiply_matrices, ~0u, mine, place);
    want_all_lanes(all, "mma");
    const auto number = [](std::uint64_t word, int half) {
        const auto bits = static_cast<std::uint32_t>(word >> 16 * half) << 16;
        float value;
        std::memcpy(&value, &bits, sizeof value);
        return static_cast<double>(value);
    };
    const int group = all.lane / 4, member = all.lane % 4;
    for (int i = 0; i < 4; ++i) {
        // Register r of a lane holds of a the rows of its upper (r even) or lower half and the columns of the
        // left (r < 2) or right one.
        const int lower = i / 2, column = 2 * member + i % 2;
        double sum = static_cast<double>(c[i]);
        for (int k = 0; k < 16; ++k) {
            const int right = k / 8, holder = k % 8 / 2;
            const double left = number(all.words[right][group * 4 + holder], 2 * lower + k % 2);
            sum += left * number(all.words[2][column * 4 + holder], 2 * right + k % 2);
        }
        c[i] = static_cast<float>(sum);
    }
}

}  // namespace tutti::kcpu
