#pragma once
// Pixels at another scale, from any part of an image in memory.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti {

/// A line of the source, the line it is scaled to, and the part of that which is wanted.
struct ScaledLine {
    std::int64_t from = 0, to = 0, first = 0, count = 0;
};

/// What each pixel of a scaled line sees of its source: a triangle as wide as the two differ in scale where
/// the result is smaller, so that no pixel is lost, else two pixels (bilinear). Weights are above 0 and add
/// up to 1. Immutable, hence safe to share between threads.
class Taps {
  public:
    struct Tap {
        std::size_t first;                ///< pixel of the source
        std::span<const double> weights;  ///< of it and those behind it
    };

    explicit Taps(const ScaledLine& line);
    /// widest() of no line from `from` pixels or fewer to `to` is more.
    static std::size_t most(std::int64_t from, std::int64_t to);

    std::size_t size() const { return places_.size(); }
    Tap operator[](std::size_t pixel) const {
        const Place& place = places_[pixel];
        return {place.first, std::span(weights_).subspan(place.weight, place.count)};
    }
    /// Of the source that one pixel sees, at most.
    std::size_t widest() const { return widest_; }

  private:
    struct Place {
        std::size_t first, weight, count;
    };
    std::vector<Place> places_;  ///< their `first` does not fall
    std::vector<double> weights_;
    std::size_t widest_ = 0;
};

/// Numbers of memory that resample() needs.
inline std::size_t resample_memory(const Taps& down, const Taps& across, std::size_t channels) {
    return down.widest() * across.size() * channels;
}

/// to[down.size(), across.size(), channels], dense, from the image whose pixel (0, 0) is at `from` and whose
/// rows are `row` elements apart. T is std::byte (u8; halves are rounded up) or float. Sums are fp64, with
/// one rounding to fp32 between rows and columns. Each element's sum is its own: nothing depends on how many
/// channels there are.
template <class T>
void resample(const T* from, std::size_t row, std::size_t channels, const Taps& down, const Taps& across,
              float* memory, T* to);

}  // namespace tutti
