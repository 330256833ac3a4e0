// Linear layers around a GELU by tanh as one operator each, one with an exact GELU behind it, and one that
// adds a residual, beside the operators apart: on the fake GPU and on a real one.

#include "../backend.hpp"
#include "cuda_ops.hpp"

namespace tutti::test {
namespace {

struct Numbers {
    DType type;
    cuda::ProductType products;
    double tolerance;  ///< of values up to about 4
};
constexpr Numbers all_numbers[] = {{DType::f32, cuda::ProductType::fp32, 2e-5},
                                   {DType::f32, cuda::ProductType::tf32, 2e-2},
                                   {DType::bf16, cuda::ProductType::bf16, 6e-2}};

class CudaFusedLinear : public ::testing::TestWithParam<Numbers> {
  protected:
    TestTensor random(const Shape& shape, unsigned seed) {
        return TestTensor::random(GetParam().type, shape, seed);
    }
    TestTensor empty(const Shape& shape) { return {GetParam().type, shape}; }
    void expect_alike(const TestTensor& found, const TestTensor& expected) {
        expect_near(found.values(), expected.values(), GetParam().tolerance);
    }
    cuda::CudaOps ops_{std::make_shared<cuda::CudaContext>(), GetParam().products};
};
std::string name_of_numbers(const testing::TestParamInfo<Numbers>& info) {
    if (info.param.products == cuda::ProductType::fp32) return "fp32";
    return info.param.products == cuda::ProductType::tf32 ? "tf32" : "bf16";
}
INSTANTIATE_TEST_SUITE_P(In, CudaFusedLinear, testing::ValuesIn(all_numbers), name_of_numbers);

TEST_P(CudaFusedLinear, has_the_values_and_gradients_of_the_operators_apart) {
    // Rows of 24 are aligned as cuBLASLt wants those of what was before the GELU, rows of 10 are not.
    for (const std::int64_t hidden : {24, 10})
        for (const bool bias : {true, false}) {
            SCOPED_TRACE(std::to_string(hidden) + (bias ? " with bias" : ""));
            const LinearShape shape1{16, hidden, bias}, shape2{hidden, 8, bias};
            const auto fused1 = ops_.gelu_linear(shape1, GeluForm::tanh);
            const auto fused2 = ops_.gelu_linear(shape2, GeluForm::tanh);
            const auto apart1 = ops_.linear(shape1), apart2 = ops_.linear(shape2);
            const auto given = [&](TestTensor& tensor) { return bias ? tensor.view() : TensorView{}; };

            auto x = random({5, 16}, 1), weight = TestTensor::random(DType::f32, {hidden, 16}, 2);
            auto offsets = TestTensor::random(DType::f32, {hidden}, 3);
            TestTensor h = empty({5, hidden}), y = h, expected_h = h, expected_y = h;
            fused1->forward_gelu(x.view(), weight.view(), given(offsets), h.view(), y.view());
            apart1->forward(x.view(), weight.view(), given(offsets), expected_h.view());
            ops_.gelu_forward(GeluForm::tanh, expected_h.view(), expected_y.view());
            expect_alike(h, expected_h);
            expect_alike(y, expected_y);
            TestTensor alone = empty({5, hidden});
            fused1->forward_gelu(x.view(), weight.view(), given(offsets), {}, alone.view());
            expect_alike(alone, expected_y);

            auto dz = random({5, 8}, 4), weight2 = TestTensor::random(DType::f32, {8, hidden}, 5);
            TestTensor dh = empty({5, hidden}), expected_dh = dh;
            TestTensor dweight(DType::f32, {8, hidden}), expected_dweight = dweight;
            TestTensor dbias(DType::f32, {8}), expected_dbias = dbias;
            fused2->backward_gelu(y.view(), h.view(), weight2.view(), dz.view(), dh.view(), dweight.view(),
                                  given(dbias));
            apart2->backward(y.view(), weight2.view(), dz.view(), expected_dh.view(), expected_dweight.view(),
                             given(expected_dbias));
            ops_.gelu_backward(GeluForm::tanh, h.view(), expected_dh.view(), expected_dh.view());
            expect_alike(dh, expected_dh);
            expect_near(dweight.values(), expected_dweight.values(), 1e-5);
            if (bias) expect_near(dbias.values(), expected_dbias.values(), 1e-5);
        }
}

TEST_P(CudaFusedLinear, with_an_exact_gelu_behind_has_the_values_and_gradients_of_the_operators_apart) {
    // Rows of 10 in bf16 are no whole vectors.
    for (const std::int64_t hidden : {24, 10})
        for (const bool bias : {true, false}) {
            SCOPED_TRACE(std::to_string(hidden) + (bias ? " with bias" : ""));
            const LinearShape shape{16, hidden, bias};
            const auto fused = ops_.gelu_linear(shape, GeluForm::exact);
            const auto apart = ops_.linear(shape);
            const auto given = [&](TestTensor& tensor) { return bias ? tensor.view() : TensorView{}; };

            auto x = random({300, 16}, 1), weight = TestTensor::random(DType::f32, {hidden, 16}, 2);
            auto offsets = TestTensor::random(DType::f32, {hidden}, 3);
            TestTensor h = empty({300, hidden}), y = h, expected_h = h, expected_y = h, alone = h;
            fused->forward_gelu(x.view(), weight.view(), given(offsets), h.view(), y.view());
            apart->forward(x.view(), weight.view(), given(offsets), expected_h.view());
            ops_.gelu_forward(GeluForm::exact, expected_h.view(), expected_y.view());
            EXPECT_TRUE(h.bytes() == expected_h.bytes());
            EXPECT_TRUE(y.bytes() == expected_y.bytes());
            fused->forward_gelu(x.view(), weight.view(), given(offsets), {}, alone.view());
            EXPECT_TRUE(alone.bytes() == y.bytes());

            auto dy = random({300, hidden}, 4), expected_dh = dy;
            TestTensor dx = empty({300, 16}), expected_dx = dx;
            TestTensor dweight(DType::f32, {hidden, 16}), expected_dweight = dweight;
            TestTensor dbias(DType::f32, {hidden}), expected_dbias = dbias;
            ops_.gelu_backward(GeluForm::exact, h.view(), expected_dh.view(), expected_dh.view());
            apart->backward(x.view(), weight.view(), expected_dh.view(), expected_dx.view(),
                            expected_dweight.view(), given(expected_dbias));
            fused->backward_through_gelu(x.view(), h.view(), weight.view(), dy.view(), dx.view(),
                                         dweight.view(), given(dbias));
            EXPECT_TRUE(dy.bytes() == expected_dh.bytes()) << "dy becomes the gradient of h";
            EXPECT_TRUE(dx.bytes() == expected_dx.bytes());
            EXPECT_TRUE(dweight.bytes() == expected_dweight.bytes());
            // The sums are of gradients before they are rounded.
            if (bias)
                expect_near(dbias.values(), expected_dbias.values(),
                            GetParam().type == DType::bf16 ? 0.2 : 0);
        }
}

TEST_P(CudaFusedLinear, adds_a_residual) {
    for (const std::int64_t out : {24, 10})
        for (const bool bias : {true, false}) {
            SCOPED_TRACE(std::to_string(out) + (bias ? " with bias" : ""));
            const LinearShape shape{16, out, bias};
            const auto op = ops_.linear(shape);
            auto x = random({5, 16}, 1), residual = random({5, out}, 2);
            auto weight = TestTensor::random(DType::f32, {out, 16}, 3),
                 offsets = TestTensor::random(DType::f32, {out}, 4);
            const TensorView given = bias ? offsets.view() : TensorView{};
            TestTensor y = empty({5, out}), apart = y, expected = y;
            op->forward(x.view(), weight.view(), given, apart.view());
            ops_.sum(apart.view(), residual.view(), expected.view());
            op->residual_forward(x.view(), weight.view(), given, residual.view(), y.view());
            expect_alike(y, expected);
            EXPECT_NE(expected.values(), apart.values());
        }
    const auto op = ops_.linear({16, 8, true});
    TestTensor x = empty({0, 16}), y = empty({0, 8}), weight(DType::f32, {8, 16}), offsets(DType::f32, {8});
    op->residual_forward(x.view(), weight.view(), offsets.view(), y.view(), y.view());
}

TEST_P(CudaFusedLinear, announces_the_gradients_of_its_parameters_before_that_of_its_input) {
    const auto fused = ops_.gelu_linear({16, 8, true}, GeluForm::tanh);
    auto y = random({3, 16}, 1), h = random({3, 16}, 2), dz = random({3, 8}, 3);
    auto weight = TestTensor::random(DType::f32, {8, 16}, 4);
    TestTensor dh = empty({3, 16}), dweight(DType::f32, {8, 16}), dbias(DType::f32, {8});
    int calls = 0;
    const ParametersFinal count = [&] { ++calls; };
    fused->backward_gelu(y.view(), h.view(), weight.view(), dz.view(), dh.view(), dweight.view(),
                         dbias.view(), &count);
    EXPECT_EQ(calls, 1);
}

TEST_P(CudaFusedLinear, takes_an_empty_batch) {
    const auto fused = ops_.gelu_linear({16, 8, true}, GeluForm::tanh);
    TestTensor x = empty({0, 16}), y = empty({0, 8}), weight(DType::f32, {8, 16}), bias(DType::f32, {8});
    TestTensor dweight(DType::f32, {8, 16}), dbias(DType::f32, {8});
    fused->forward_gelu(x.view(), weight.view(), bias.view(), y.view(), y.view());
    const auto expect_zeros = [&] {
        EXPECT_EQ(dweight.values(), std::vector<double>(128, 0));
        EXPECT_EQ(dbias.values(), std::vector<double>(8, 0));
    };
    fused->backward_gelu(x.view(), x.view(), weight.view(), y.view(), x.view(), dweight.view(), dbias.view());
    expect_zeros();
    dweight = TestTensor::random(DType::f32, {8, 16}, 1);
    dbias = TestTensor::random(DType::f32, {8}, 1);
    const auto exact = ops_.gelu_linear({16, 8, true}, GeluForm::exact);
    exact->backward_through_gelu(x.view(), y.view(), weight.view(), y.view(), x.view(), dweight.view(),
                                 dbias.view());
    expect_zeros();
}

TEST(CudaGelu, is_fused_where_cublaslt_has_the_same_function) {
    cuda::CudaOps ops(std::make_shared<cuda::CudaContext>(), cuda::ProductType::fp32);
    EXPECT_TRUE(ops.fuses_gelu(GeluForm::tanh));
    EXPECT_FALSE(ops.fuses_gelu(GeluForm::exact));
    EXPECT_TRUE(ops.fuses_gelu_behind(GeluForm::exact));
    EXPECT_FALSE(ops.fuses_gelu_behind(GeluForm::tanh));
}

}  // namespace
}  // namespace tutti::test
