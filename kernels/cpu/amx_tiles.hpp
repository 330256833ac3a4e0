#pragma once
// Products in bf16 by tiles of a matrix unit, as Intel's AMX has them (Intel SDM, TDPBF16PS): eight registers
// of up to 16 rows of 64 bytes. A product adds left[rows, depth] · right[depth, 16] to sums in fp32, where
// left's rows are pairs of the summed dimension and right's rows one pair of each column.
//
// Unit: what has the registers, the processor or its emulation in tests:
//   configure(heights)        rows of each register, and bytes of each row
//   zero<T>(), load<T>(from, stride), store<T>(to, stride), strides in bytes
//   multiply<C, A, B>()       C += A · B
//   bring(from)               asks for the line of memory, for the second-level cache
//
// Compiled for the unit and for any processor, so nothing here is a function that the linker could share:
// what is no template of a Unit lies in the unnamed namespace.

#include <cstdint>

#include "bf16_tile.hpp"

namespace tutti {

/// Rows and columns of a register of sums; also the pairs of a step.
inline constexpr std::int64_t tile_side = 16;

namespace {
constexpr std::int64_t lesser(std::int64_t a, std::int64_t b) {
    return a < b ? a : b;
}
}  // namespace

/// Of eight registers: 0 to 3 are sums (two rows of two), 4 and 5 left factors, 6 and 7 right ones.
struct TileShapes {
    std::uint8_t rows[8];
    std::uint16_t row_bytes[8];
};

/// The products of multiply_bf16_pairs (bf16_tile.hpp), whose left rows are pairs of neighbours: left_step
/// is 1.
template <class Unit>
class TileProduct {
  public:
    TileProduct(const PairRuns& runs, const Bf16Pair* left, const Bf16Pair* right, const PairSums& to,
                const std::int64_t* left_at = nullptr)
        : runs_(runs), left_(left), right_(right), left_at_(left_at), to_(to) {}

    void execute(std::int64_t rows, std::int64_t columns) const {
        const std::int64_t whole = runs_.length / tile_side, rest = runs_.length % tile_side;
        Sums from = to_.add ? Sums::there : to_.start ? Sums::start : Sums::zero;
        if (rest > 0) {
            pass(rows, columns, {rest, whole * tile_side, 1}, from);
            from = Sums::there;
        }
        if (whole > 0 || rest == 0) pass(rows, columns, {tile_side, 0, whole}, from);
        Unit::release();
    }

  private:
    /// What sums begin from.
    enum class Sums { zero, start, there };
    /// Of each run: so many steps of `pairs`, from pair `first` on.
    struct Steps {
        std::int64_t pairs, first, count;
    };
    static constexpr std::int64_t bytes = sizeof(Bf16Pair);

    /// For sums of `height` rows, at most 2 · tile_side.
    static TileShapes shapes(std::int64_t height, std::int64_t pairs) {
        const auto upper = static_cast<std::uint8_t>(lesser(height, tile_side));
        const auto lower = static_cast<std::uint8_t>(height > tile_side ? height - tile_side : 1);
        const auto depth = static_cast<std::uint8_t>(pairs);
        const auto left_bytes = static_cast<std::uint16_t>(pairs * bytes);
        constexpr std::uint16_t full = 64;
        return {{upper, upper, lower, lower, upper, lower, depth, depth},
                {full, full, full, full, left_bytes, left_bytes, full, full}};
    }

    void pass(std::int64_t rows, std::int64_t columns, const Steps& steps, Sums from) const {
        constexpr std::int64_t most = 2 * tile_side;
        // Blocks of nearly the same height: registers are seldom configured anew.
        for (std::int64_t left = (rows + most - 1) / most, row = 0, configured = 0; left > 0; --left) {
            const std::int64_t height = (rows - row + left - 1) / left;
            if (height != configured) Unit::configure(shapes(height, steps.pairs));
            configured = height;
            for (std::int64_t column = 0; column < columns; column += most) {
                const bool wide = columns - column > tile_side;
                if (height > tile_side)
                    wide ? block<true, true>(row, column, steps, from)
                         : block<true, false>(row, column, steps, from);
                else
                    wide ? block<false, true>(row, column, steps, from)
                         : block<false, false>(row, column, steps, from);
            }
            row += height;
        }
    }

    template <bool TwoRows, bool TwoColumns>
    void block(std::int64_t row, std::int64_t column, const Steps& steps, Sums from) const {
        begin<0>(row, column, from);
        if constexpr (TwoColumns) begin<1>(row, column + tile_side, from);
        if constexpr (TwoRows) begin<2>(row + tile_side, column, from);
        if constexpr (TwoRows && TwoColumns) begin<3>(row + tile_side, column + tile_side, from);
        const char* ahead = nullptr;
        std::int64_t ahead_lines = to_.ahead ? take_ahead(runs_.runs * steps.count * lines_a_step, ahead) : 0;
        const std::int64_t left_stride = runs_.left_row * bytes, right_stride = runs_.right_step * bytes;
        for (std::int64_t run = 0; run < runs_.runs; ++run) {
            const Bf16Pair* a = left_ + (left_at_ ? left_at_[run] : run * runs_.left_run) +
                                row * runs_.left_row + steps.first;
            const Bf16Pair* b = right_ + run * runs_.right_run + steps.first * runs_.right_step + column;
            for (std::int64_t k = 0; k < steps.count; ++k) {
                for (std::int64_t i = lesser(ahead_lines, lines_a_step); i > 0;
                     --i, --ahead_lines, ahead += line)
                    Unit::bring(ahead);
                Unit::template load<4>(a, left_stride);
                Unit::template load<6>(b, right_stride);
                Unit::template multiply<0, 4, 6>();
                if constexpr (TwoColumns) {
                    Unit::template load<7>(b + tile_side, right_stride);
                    Unit::template multiply<1, 4, 7>();
                }
                if constexpr (TwoRows) {
                    Unit::template load<5>(a + tile_side * runs_.left_row, left_stride);
                    Unit::template multiply<2, 5, 6>();
                    if constexpr (TwoColumns) Unit::template multiply<3, 5, 7>();
                }
                a += tile_side;
                b += tile_side * runs_.right_step;
            }
        }
        end<0>(row, column);
        if constexpr (TwoColumns) end<1>(row, column + tile_side);
        if constexpr (TwoRows) end<2>(row + tile_side, column);
        if constexpr (TwoRows && TwoColumns) end<3>(row + tile_side, column + tile_side);
    }

    /// Lines that are asked for in a step, which takes as long as some of them do on their way.
    static constexpr std::int64_t lines_a_step = 16, line = 64;
    /// At most so many lines of the first range that has any: from `from` on.
    std::int64_t take_ahead(std::int64_t most, const char*& from) const {
        for (MemoryAhead::Range& range : to_.ahead->ranges) {
            if (range.lines <= 0) continue;
            const std::int64_t lines = lesser(most, range.lines);
            from = static_cast<const char*>(range.next);
            range.next = from + lines * line;
            range.lines -= lines;
            return lines;
        }
        return 0;
    }

    template <int Register>
    void begin(std::int64_t row, std::int64_t column, Sums from) const {
        switch (from) {
            case Sums::zero:
                return Unit::template zero<Register>();
            case Sums::start:  // of every row alike
                return Unit::template load<Register>(to_.start + column, 0);
            case Sums::there:
                return Unit::template load<Register>(to_.c + row * to_.c_row + column, to_.c_row * bytes);
        }
    }
    template <int Register>
    void end(std::int64_t row, std::int64_t column) const {
        Unit::template store<Register>(to_.c + row * to_.c_row + column, to_.c_row * bytes);
    }

    const PairRuns& runs_;
    const Bf16Pair *const left_, *const right_;
    const std::int64_t* const left_at_;
    const PairSums& to_;
};

}  // namespace tutti
