#include "resample.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace tutti {
namespace {

double number(std::byte value) {
    return std::to_integer<int>(value);
}
double number(float value) {
    return static_cast<double>(value);
}

void store(double value, float& to) {
    to = static_cast<float>(value);
}
void store(double value, std::byte& to) {
    const double inside = std::clamp(value, 0.0, 255.0);
    const int whole = static_cast<int>(inside);
    to = static_cast<std::byte>(whole + (inside - whole >= 0.5 ? 1 : 0));
}

/// to[i] = the weighted sum of line(k)[i], for `count` elements, which the compiler keeps in registers.
template <std::size_t count, class Line, class To>
void add_block(std::span<const double> weights, Line line, To* to) {
    std::array<double, count> sums{};
    for (std::size_t k = 0; k < weights.size(); ++k) {
        const auto* from = line(k);
        const double weight = weights[k];
        for (std::size_t i = 0; i < count; ++i) sums[i] += weight * number(from[i]);
    }
    for (std::size_t i = 0; i < count; ++i) store(sums[i], to[i]);
}

template <class Line, class To>
void add_lines(std::span<const double> weights, Line line, std::size_t count, To* to) {
    if (count == 3) return add_block<3>(weights, line, to);
    std::size_t i = 0;
    const auto behind = [&](std::size_t k) { return line(k) + i; };
    for (; i + 16 <= count; i += 16) add_block<16>(weights, behind, to + i);
    for (; i + 4 <= count; i += 4) add_block<4>(weights, behind, to + i);
    for (; i < count; ++i) add_block<1>(weights, behind, to + i);
}

}  // namespace

std::size_t Taps::most(std::int64_t from, std::int64_t to) {
    const double reach = std::max(static_cast<double>(from) / static_cast<double>(to), 1.0);
    return static_cast<std::size_t>(std::floor(2 * reach)) + 1;  // whole numbers in a range of 2 x reach
}

Taps::Taps(const ScaledLine& line) {
    const double scale = static_cast<double>(line.from) / static_cast<double>(line.to);
    const double reach = std::max(scale, 1.0);
    for (std::int64_t i = 0; i < line.count; ++i) {
        const double centre = (static_cast<double>(line.first + i) + 0.5) * scale;
        const std::int64_t begin = std::max<std::int64_t>(0, std::llround(std::floor(centre - reach + 0.5)));
        const std::int64_t end =
            std::min<std::int64_t>(line.from, std::llround(std::floor(centre + reach + 0.5)));
        Place place{0, weights_.size(), 0};
        double sum = 0;
        for (std::int64_t k = begin; k < end; ++k) {
            const double weight = 1 - std::abs(static_cast<double>(k) + 0.5 - centre) / reach;
            if (weight <= 0) continue;  // at the triangle's feet
            if (place.count++ == 0) place.first = static_cast<std::size_t>(k);
            weights_.push_back(weight);
            sum += weight;
        }
        for (std::size_t k = place.weight; k < weights_.size(); ++k) weights_[k] /= sum;
        widest_ = std::max(widest_, place.count);
        places_.push_back(place);
    }
}

template <class T>
void resample(const T* from, std::size_t row, std::size_t channels, const Taps& down, const Taps& across,
              float* memory, T* to) {
    // Rows of the source at the new width, in a ring of as many as one row of the result sees.
    const std::size_t width = across.size() * channels, depth = down.widest();
    const auto scaled = [&](std::size_t y) { return memory + y % depth * width; };
    std::size_t next = 0;
    for (std::size_t y = 0; y < down.size(); ++y, to += width) {
        const Taps::Tap rows = down[y];
        for (next = std::max(next, rows.first); next < rows.first + rows.weights.size(); ++next)
            for (std::size_t x = 0; x < across.size(); ++x) {
                const Taps::Tap pixels = across[x];
                const T* const first = from + next * row + pixels.first * channels;
                add_lines(
                    pixels.weights, [&](std::size_t k) { return first + k * channels; }, channels,
                    scaled(next) + x * channels);
            }
        add_lines(
            rows.weights, [&](std::size_t k) { return scaled(rows.first + k); }, width, to);
    }
}

template void resample<std::byte>(const std::byte*, std::size_t, std::size_t, const Taps&, const Taps&,
                                  float*, std::byte*);
template void resample<float>(const float*, std::size_t, std::size_t, const Taps&, const Taps&, float*,
                              float*);

}  // namespace tutti
