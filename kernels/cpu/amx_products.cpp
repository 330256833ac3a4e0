#include "amx_products.hpp"

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "amx_tiles.hpp"
#include "bf16_transpose.hpp"

// As in bf16_tile.cpp: only what lies in the unnamed namespace may be inlined here.

namespace tutti {
namespace {

class AmxUnit {
  public:
    static void configure(const TileShapes& shapes) {
        struct alignas(64) {
            std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
            std::uint16_t row_bytes[16] = {};
            std::uint8_t rows[16] = {};
        } layout;
        for (int i = 0; i < 8; ++i)
            layout.row_bytes[i] = shapes.row_bytes[i], layout.rows[i] = shapes.rows[i];
        _tile_loadconfig(&layout);
    }
    static void release() { _tile_release(); }
    static void bring(const void* from) { _mm_prefetch(from, _MM_HINT_T1); }
    // GCC's intrinsics take a register's number from the text of their argument, so not a template's.
    template <int T>
    static void zero() {
        asm volatile("tilezero %%tmm%c0" ::"i"(T));
    }
    template <int T>
    static void load(const void* from, std::int64_t stride) {
        asm volatile("tileloadd (%1, %2, 1), %%tmm%c0" ::"i"(T), "r"(from), "r"(stride) : "memory");
    }
    template <int T>
    static void store(void* to, std::int64_t stride) {
        asm volatile("tilestored %%tmm%c0, (%1, %2, 1)" ::"i"(T), "r"(to), "r"(stride) : "memory");
    }
    template <int C, int A, int B>
    static void multiply() {
        asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
    }
};

bool processor_has_amx() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24, osxsave = 1u << 27;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & osxsave) == 0) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    return (d & amx_bf16) != 0 && (d & amx_tile) != 0;
}

/// The system saves the registers, 8 KiB for each thread, for processes that have asked.
bool system_grants_amx() {
    constexpr long request_permission = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

/// Rows of a block and pairs that are turned at a time: 64 KiB of the stack.
constexpr std::int64_t turned_rows = 64, turned_pairs = 256;

/// to[rows, turned_pairs] = the transpose of from[pairs, rows], of which rows begin `step` apart. Rows and
/// pairs beyond whole vectors: what lies there is written, too.
void turn(const Bf16Pair* from, std::int64_t step, std::int64_t pairs, std::int64_t rows, Bf16Pair* to) {
    for (std::int64_t pair = 0; pair < pairs; pair += bf16_lanes)
        for (std::int64_t row = 0; row < rows; row += bf16_lanes / 2) {
            __m256i of_pairs[bf16_lanes] = {};
            const auto mask = static_cast<__mmask8>((1u << lesser(rows - row, 8)) - 1);
            const std::int64_t there = lesser(bf16_lanes, pairs - pair);
            for (std::int64_t p = 0; p < there; ++p)
                of_pairs[p] = _mm256_maskz_loadu_epi32(mask, from + (pair + p) * step + row);
            transpose_pairs(of_pairs, to + row * turned_pairs + pair, turned_pairs);
        }
}

/// Left factors that lie pair by pair are turned into rows of pairs first: some runs at a time, or a part of
/// one.
void multiply_turned(std::int64_t rows, std::int64_t columns, const PairRuns& runs, const Bf16Pair* left,
                     const Bf16Pair* right, const PairSums& to) {
    alignas(64) Bf16Pair turned[turned_rows * turned_pairs];
    const std::int64_t length = runs.length > 0 ? lesser(runs.length, turned_pairs) : 1;
    const std::int64_t apart = (length + tile_side - 1) / tile_side * tile_side;
    const std::int64_t at_once = turned_pairs / apart;
    for (std::int64_t row = 0; row < rows; row += turned_rows) {
        const std::int64_t height = lesser(turned_rows, rows - row);
        PairSums sums = to;
        sums.c += row * to.c_row;
        const auto multiply = [&](std::int64_t run, std::int64_t count, std::int64_t at, std::int64_t pairs) {
            for (std::int64_t i = 0; i < count; ++i)
                turn(left + (run + i) * runs.left_run + at * runs.left_step + row, runs.left_step, pairs,
                     height, turned + i * apart);
            const PairRuns part{count, pairs, apart, runs.right_run, 1, runs.right_step, turned_pairs};
            const Bf16Pair* const factors = right + run * runs.right_run + at * runs.right_step;
            TileProduct<AmxUnit>(part, turned, factors, sums).execute(height, columns);
            sums.add = true;
        };
        if (runs.runs * runs.length == 0) multiply(0, 0, 0, 0);
        for (std::int64_t run = 0; run < runs.runs; run += at_once)
            for (std::int64_t at = 0; at < runs.length; at += length)
                multiply(run, lesser(at_once, runs.runs - run), at, lesser(length, runs.length - at));
    }
}

}  // namespace

bool has_amx_products() {
    static const bool has = has_bf16_tiles() && processor_has_amx() && system_grants_amx();
    return has;
}

void multiply_amx_pairs(std::int64_t rows, std::int64_t columns, const PairRuns& runs, const Bf16Pair* left,
                        const Bf16Pair* right, const PairSums& to) {
    if (runs.left_step == 1)
        TileProduct<AmxUnit>(runs, left, right, to).execute(rows, columns);
    else
        multiply_turned(rows, columns, runs, left, right, to);
}

void multiply_amx_runs(std::int64_t rows, std::int64_t columns, const PairRuns& runs,
                       const std::int64_t* left_at, const Bf16Pair* left, const Bf16Pair* right,
                       const PairSums& to) {
    TileProduct<AmxUnit>(runs, left, right, to, left_at).execute(rows, columns);
}

}  // namespace tutti
