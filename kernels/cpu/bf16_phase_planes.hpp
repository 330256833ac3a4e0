#pragma once
// Where the entries of bf16_phase_tile.hpp lie: 4×4 planes, each of the entries of all tiles that meet the
// same numbers of the window, image after image.

#include <array>
#include <cstdint>

#include "bf16_phase_tile.hpp"

namespace tutti {

class PhasePlanes {
  public:
    /// Of images whose outputs are of this size.
    PhasePlanes(std::int64_t out_height, std::int64_t out_width) : height_(out_height), width_(out_width) {}

    std::int64_t tile_rows() const { return (height_ + 1) / 2; }
    std::int64_t tile_columns() const { return (width_ + 1) / 2; }

    /// Of plane p in an image.
    std::int64_t rows(std::int64_t p) const { return along(p / 4, height_) * along(p % 4, width_); }
    /// Of all planes.
    std::int64_t rows() const {
        std::int64_t sum = 0;
        for (std::int64_t p = 0; p < winograd_products; ++p) sum += rows(p);
        return sum;
    }

    /// Along an axis: entry e (of phase_entries) of tile t is `first` + t·`step` in the plane of number
    /// `number`, where t is below `tiles`: the last tile may have one output alone.
    struct Axis {
        std::int64_t number, first, step, tiles;
    };
    Axis along_rows(std::int64_t e) const { return axis(e, height_); }
    Axis along_columns(std::int64_t e) const { return axis(e, width_); }
    /// The length of a row of plane p.
    std::int64_t columns(std::int64_t p) const { return along(p % 4, width_); }

  private:
    /// So many numbers along an axis with n outputs meet the window's number `number`.
    static std::int64_t along(std::int64_t number, std::int64_t n) {
        if (number == 3) return n;
        return number == 2 ? n / 2 : (n + 1) / 2;
    }
    static Axis axis(std::int64_t e, std::int64_t n) {
        if (e < 3) return {e, 0, 1, along(e, n)};
        return {3, e - 3, 2, e == 3 ? (n + 1) / 2 : n / 2};
    }

    const std::int64_t height_, width_;
};

/// Memory for the planes of some images: rows of `row` elements.
class PhaseMemory {
  public:
    PhaseMemory(const PhasePlanes& planes, std::int64_t images, std::int64_t row) {
        std::int64_t at = 0;
        for (std::int64_t p = 0; p < winograd_products; ++p) {
            begin_[static_cast<std::size_t>(p)] = at;
            at += planes.rows(p) * images * row + gap;
        }
        size_ = at;
        for (std::size_t e = 0; e < entries; ++e) {
            const PhasePlanes::Axis h = planes.along_rows(static_cast<std::int64_t>(e) / phase_entries),
                                    w = planes.along_columns(static_cast<std::int64_t>(e) % phase_entries);
            const std::int64_t p = h.number * 4 + w.number, of_row = planes.columns(p) * row;
            first_[e] = begin(p) + h.first * of_row + w.first * row;
            of_image_[e] = planes.rows(p) * row;
            of_i_[e] = h.step * of_row;
            of_j_[e] = w.step * row;
            tile_rows_[e] = h.tiles;
            tile_columns_[e] = w.tiles;
        }
    }
    std::int64_t size() const { return size_; }
    std::int64_t begin(std::int64_t plane) const { return begin_[static_cast<std::size_t>(plane)]; }
    static constexpr std::size_t entries = static_cast<std::size_t>(phase_entries * phase_entries);
    /// Where the entries of tile (i, j) of an image lie, row by row; null where there is none, as beyond the
    /// tiles.
    template <class Element>
    std::array<Element*, entries> find(Element* memory, std::int64_t image, std::int64_t i,
                                       std::int64_t j) const {
        std::array<Element*, entries> places;
        const auto place = [&](std::size_t e) {
            return memory + (first_[e] + image * of_image_[e] + i * of_i_[e] + j * of_j_[e]);
        };
        // The last entry is the first to be absent.
        if (i >= 0 && j >= 0 && i < tile_rows_[entries - 1] && j < tile_columns_[entries - 1]) {
            for (std::size_t e = 0; e < entries; ++e) places[e] = place(e);
            return places;
        }
        for (std::size_t e = 0; e < entries; ++e) {
            const bool there = i >= 0 && j >= 0 && i < tile_rows_[e] && j < tile_columns_[e];
            places[e] = there ? place(e) : nullptr;
        }
        return places;
    }

  private:
    /// A gap between planes keeps them from lying a multiple of 4096 bytes apart, where they would push each
    /// other out of the cache.
    static constexpr std::int64_t gap = 5 * bf16_lanes;
    std::array<std::int64_t, static_cast<std::size_t>(winograd_products)> begin_;
    // Of each entry. One after the other, so that a tile's places are found in vectors.
    std::array<std::int64_t, entries> first_, of_image_, of_i_, of_j_, tile_rows_, tile_columns_;
    std::int64_t size_;
};

}  // namespace tutti
