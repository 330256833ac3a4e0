#pragma once
// What pixels become as a model's input: a number for each of 256 values, per channel.

#include <cstdint>
#include <span>
#include <vector>

namespace tutti {

template <class T>
class PixelTable {
  public:
    /// Per channel, as Ops::normalize has them. Nothing is computed where they are those of before.
    void set(std::span<const float> mean, std::span<const float> std);

    /// y[pixels, channels] of x, u8. Several threads may call it at once.
    void apply(const unsigned char* x, std::int64_t pixels, T* y) const;

  private:
    void look_up(const unsigned char* x, std::int64_t count, T* y) const;

    std::vector<float> mean_, std_;
    std::vector<T> table_;  ///< [256][channels]
    /// Of whole vectors of pixels, number by number, where quotients can be had by multiplying: mean, std and
    /// 1/std.
    std::vector<float> means_, divisors_, factors_;
};

}  // namespace tutti
