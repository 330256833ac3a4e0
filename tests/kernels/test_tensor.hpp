#pragma once
// A small tensor that owns its elements; tests see them as double, whatever the type.

#include <limits>
#include <vector>

#include "test_memory.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti::test {

inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinity = std::numeric_limits<double>::infinity();

class TestTensor {
  public:
    /// Every byte 0xff: NaN in floating point, so that an element which an operator forgets to write shows.
    TestTensor(DType dtype, const Shape& shape);
    TestTensor(DType dtype, const Shape& shape, const std::vector<double>& values);
    /// Uniform in [−1, 1), the same numbers for every type, rounded to it.
    static TestTensor random(DType dtype, const Shape& shape, unsigned seed);
    /// A copy waits as every look at the values does.
    TestTensor(const TestTensor& other) : dtype_(other.dtype_), shape_(other.shape_), bytes_(other.bytes()) {}
    TestTensor(TestTensor&&) = default;
    TestTensor& operator=(const TestTensor& other) { return *this = TestTensor(other); }
    TestTensor& operator=(TestTensor&&) = default;
    ~TestTensor() = default;

    TensorView view() { return {bytes_.data(), dtype_, shape_}; }
    std::size_t size() const { return static_cast<std::size_t>(shape_.count()); }
    using Bytes = std::vector<std::byte, MemoryOfTests<std::byte>>;
    const Bytes& bytes() const {
        finish_work();
        return bytes_;
    }

    /// Each waits for what operators have begun, which costs microseconds on a GPU: loops over many elements
    /// read values() once.
    double get(std::size_t i) const;
    void set(std::size_t i, double value);
    std::vector<double> values() const;

  private:
    double read(std::size_t i) const;
    void write(std::size_t i, double value);

    DType dtype_;
    Shape shape_;
    // One byte at least: an empty tensor has an address, as in an arena; a null one would count as left out.
    Bytes bytes_;
};

/// Σ aᵢ·bᵢ: a loss whose gradient with respect to a is b.
double dot(const TestTensor& a, const TestTensor& b);

/// d loss / d input by central differences, element by element.
template <class Loss>
std::vector<double> numeric_gradient(TestTensor& input, double step, const Loss& loss) {
    std::vector<double> gradient(input.size());
    for (std::size_t i = 0; i < input.size(); ++i) {
        const double value = input.get(i);
        input.set(i, value + step);
        const double above = loss();
        input.set(i, value - step);
        const double below = loss();
        input.set(i, value);
        gradient[i] = (above - below) / (2 * step);
    }
    return gradient;
}

}  // namespace tutti::test
