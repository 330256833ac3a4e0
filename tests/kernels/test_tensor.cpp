#include "test_tensor.hpp"

#include <algorithm>
#include <cstring>
#include <random>

#include "../../kernels/common/bf16.hpp"

namespace tutti::test {
namespace {

template <class T>
double load(const TestTensor::Bytes& bytes, std::size_t i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    return static_cast<double>(value);
}
template <class T>
void store(TestTensor::Bytes& bytes, std::size_t i, double value) {
    const T element = static_cast<T>(value);
    std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
}

std::uint16_t load_bits(const TestTensor::Bytes& bytes, std::size_t i) {
    std::uint16_t bits;
    std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
    return bits;
}
void store_bits(TestTensor::Bytes& bytes, std::size_t i, std::uint16_t bits) {
    std::memcpy(bytes.data() + i * sizeof bits, &bits, sizeof bits);
}

}  // namespace

TestTensor::TestTensor(DType dtype, const Shape& shape)
    : dtype_(dtype),
      shape_(shape),
      bytes_(std::max<std::size_t>(1, static_cast<std::size_t>(shape.count()) * size_of(dtype)),
             std::byte{0xff}) {}

TestTensor::TestTensor(DType dtype, const Shape& shape, const std::vector<double>& values)
    : TestTensor(dtype, shape) {
    assert(values.size() == size());
    for (std::size_t i = 0; i < values.size(); ++i) write(i, values[i]);
}

TestTensor TestTensor::random(DType dtype, const Shape& shape, unsigned seed) {
    std::mt19937 generator(seed);
    TestTensor result(dtype, shape);
    for (std::size_t i = 0; i < result.size(); ++i)
        result.write(i, static_cast<double>(generator()) / 2147483648.0 - 1.0);
    return result;
}

double TestTensor::get(std::size_t i) const {
    finish_work();
    return read(i);
}

void TestTensor::set(std::size_t i, double value) {
    finish_work();
    write(i, value);
}

std::vector<double> TestTensor::values() const {
    finish_work();
    std::vector<double> result(size());
    for (std::size_t i = 0; i < size(); ++i) result[i] = read(i);
    return result;
}

double TestTensor::read(std::size_t i) const {
    switch (dtype_) {
        case DType::f32:
            return load<float>(bytes_, i);
        case DType::f64:
            return load<double>(bytes_, i);
        case DType::i64:
            return load<std::int64_t>(bytes_, i);
        case DType::bf16:
            return static_cast<double>(to_float(Bf16{load_bits(bytes_, i)}));
        default:
            return load<unsigned char>(bytes_, i);
    }
}

void TestTensor::write(std::size_t i, double value) {
    switch (dtype_) {
        case DType::f32:
            return store<float>(bytes_, i, value);
        case DType::f64:
            return store<double>(bytes_, i, value);
        case DType::i64:
            return store<std::int64_t>(bytes_, i, value);
        case DType::bf16:
            return store_bits(bytes_, i, to_bf16(static_cast<float>(value)).bits);
        default:
            return store<unsigned char>(bytes_, i, value);
    }
}

double dot(const TestTensor& a, const TestTensor& b) {
    double sum = 0;
    const std::vector<double> ours = a.values(), theirs = b.values();
    for (std::size_t i = 0; i < ours.size(); ++i) sum += ours[i] * theirs[i];
    return sum;
}

}  // namespace tutti::test
