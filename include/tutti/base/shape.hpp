#pragma once
// The dimensions of a tensor, stored in place: making or passing a Shape allocates nothing.

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace tutti {

/// Up to six dimensions, outermost first. A Shape without dimensions is a scalar (one element).
class Shape {
  public:
    static constexpr std::size_t max_rank = 6;

    constexpr Shape() = default;
    constexpr Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
    constexpr explicit Shape(std::span<const std::int64_t> dims) : rank_(dims.size()) {
        assert(dims.size() <= max_rank);
        for (std::size_t i = 0; i < rank_; ++i) dims_[i] = dims[i];
    }

    constexpr std::size_t rank() const { return rank_; }
    constexpr std::int64_t operator[](std::size_t i) const { return dims_[i]; }
    constexpr std::int64_t& operator[](std::size_t i) { return dims_[i]; }
    constexpr const std::int64_t* begin() const { return dims_.data(); }
    constexpr const std::int64_t* end() const { return dims_.data() + rank_; }

    /// Product of all dimensions; 1 for a scalar.
    constexpr std::int64_t count() const {
        std::int64_t n = 1;
        for (std::size_t i = 0; i < rank_; ++i) n *= dims_[i];
        return n;
    }

    /// This shape with one more dimension in front: {H, W, C}.with_front(N) is {N, H, W, C}.
    constexpr Shape with_front(std::int64_t n) const {
        assert(rank_ < max_rank);
        Shape result;
        result.rank_ = rank_ + 1;
        result.dims_[0] = n;
        for (std::size_t i = 0; i < rank_; ++i) result.dims_[i + 1] = dims_[i];
        return result;
    }

    friend constexpr bool operator==(const Shape& a, const Shape& b) {
        if (a.rank_ != b.rank_) return false;
        for (std::size_t i = 0; i < a.rank_; ++i)
            if (a.dims_[i] != b.dims_[i]) return false;
        return true;
    }

  private:
    std::array<std::int64_t, max_rank> dims_{};
    std::size_t rank_ = 0;
};

/// "[64, 28, 28, 1]".
std::string to_string(const Shape& shape);

}  // namespace tutti
