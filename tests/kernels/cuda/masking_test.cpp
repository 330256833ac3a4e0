#include "masking.hpp"

#include "storage_cases.hpp"

namespace tutti::test {
namespace {

constexpr std::int64_t seed = -7, epoch = 3;

struct MaskingSizes {
    std::int64_t samples;
    TubeMask mask;
    std::int64_t width;
};
// Whole vectors of channels and not; more hidden rows than a block sums at once; nothing hidden.
const MaskingSizes masking_sizes[] = {{0, {4, 1, 2}, 8},  {1, {1, 1, 0}, 1},  {3, {5, 2, 3}, 7},
                                      {2, {9, 1, 8}, 24}, {5, {4, 3, 0}, 40}, {40, {16, 2, 14}, 33}};

class CudaMaskingTest : public CudaKernelTest {
  protected:
    std::vector<std::int64_t> positions(std::int64_t samples) {
        std::vector<std::int64_t> result;
        for (std::int64_t n = 0; n < samples; ++n)
            result.push_back((n * n + 1) * 100'000'000'019 % (1LL << 40));
        return result;
    }
    TestTensor order_of(std::int64_t samples, const TubeMask& mask) {
        const auto where = positions(samples);
        TestTensor order(DType::i64, {samples, mask.tokens()});
        cpu_.mask_tokens({.seed = seed, .epoch = epoch, .positions = where}, mask, order.view());
        return order;
    }
    TestTensor epoch_{DType::i64, {1}, {static_cast<double>(epoch)}};
};
TUTTI_KERNEL_TEST(CudaMaskingTest);

TEST_P(CudaMaskingTest, masks_have_the_bits_of_the_cpu) {
    // One tile of keys, several, and the sizes between; one place's repeats, and none hidden.
    for (const TubeMask& mask : {TubeMask{1, 1, 0},
                                 {1, 4, 0},
                                 {7, 2, 6},
                                 {32, 1, 16},
                                 {33, 3, 1},
                                 {196, 8, 176},
                                 {255, 1, 100},
                                 {256, 1, 255},
                                 {257, 2, 128},
                                 {1025, 1, 700}})
        for (const std::int64_t samples : {0, 1, 3}) {
            SCOPED_TRACE(testing::Message() << samples << " x " << mask.places << " x " << mask.repeats);
            auto where = positions(samples);
            TestTensor order(DType::i64, {samples, mask.tokens()}), expected = order_of(samples, mask);
            cuda::mask_tokens({seed, 5, epoch_.view(), view_of(std::span(where))}, mask, order.view(),
                              stream_);
            EXPECT_EQ(order.bytes(), expected.bytes());
        }
}

TEST_P(CudaMaskingTest, running_cells_have_the_bits_of_the_cpu) {
    struct Case {
        TubeMask mask;
        std::int64_t columns;
    };
    for (const auto& [mask, columns] :
         {Case{{4, 4, 2}, 2}, {{4, 8, 0}, 2}, {{12, 12, 7}, 6}, {{196, 8, 176}, 14}})
        for (const std::int64_t dropped : {1, 2, 3})
            for (const std::int64_t samples : {0, 1, 5}) {
                SCOPED_TRACE(testing::Message() << samples << " x " << mask.places << ", " << dropped);
                const RunningCells cells{columns, dropped};
                auto where = positions(samples);
                TestTensor order = order_of(samples, mask);
                const Shape shape{samples, mask.visible_tokens() + cells.kept_tokens(mask)};
                TestTensor decoded(DType::i64, shape), expected(DType::i64, shape);
                cuda::running_cells({seed, 5, epoch_.view(), view_of(std::span(where))}, mask, cells,
                                    order.view(), decoded.view(), stream_);
                cpu_.running_cells({.seed = seed, .epoch = epoch, .positions = where}, mask, cells,
                                   order.view(), expected.view());
                EXPECT_EQ(decoded.bytes(), expected.bytes());
            }
}

TEST_P(CudaMaskingTest, orders_of_running_cells_fill_and_compare_as_on_the_cpu) {
    constexpr TubeMask mask{8, 4, 5};
    constexpr RunningCells cells{4, 2};
    constexpr std::int64_t samples = 3, width = 12, channels = 3, visible = mask.visible_tokens();
    const std::int64_t decoded_tokens = visible + cells.kept_tokens(mask), said = cells.said_tokens(mask);
    const auto where = positions(samples);
    TestTensor order = order_of(samples, mask), decoded(DType::i64, {samples, decoded_tokens});
    cpu_.running_cells({.seed = seed, .epoch = epoch, .positions = where}, mask, cells, order.view(),
                       decoded.view());
    const auto random = [](const Shape& shape, unsigned number) {
        return TestTensor::random(DType::f32, shape, number);
    };
    auto x = random({samples, visible, width}, 1), token = random({width}, 2),
         table = random({mask.tokens(), width}, 3), patches = random({samples, mask.tokens(), width}, 4),
         prediction = random({samples, said, width}, 5), epsilon = random({channels}, 6);
    for (std::size_t i = 0; i < epsilon.size(); ++i) epsilon.set(i, 1 + 0.25 * epsilon.get(i));
    const Shape filled{samples, decoded_tokens, width}, told{samples, said, width};
    TestTensor y(DType::f32, filled), cpu_y(DType::f32, filled);
    cuda::fill_tokens_forward(x.view(), token.view(), table.view(), decoded.view(), y.view(), stream_);
    cpu_.fill_tokens_forward(x.view(), token.view(), table.view(), decoded.view(), cpu_y.view());
    EXPECT_EQ(y.bytes(), cpu_y.bytes());
    TestTensor out(DType::f32, told), cpu_out(DType::f32, told);
    cuda::patch_differences(prediction.view(), patches.view(), decoded.view(), epsilon.view(), out.view(),
                            stream_);
    cpu_.patch_differences(prediction.view(), patches.view(), decoded.view(), epsilon.view(), cpu_out.view());
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out.get(i), cpu_out.get(i), 1e-6);
}

TEST_P(CudaMaskingTest, more_samples_than_the_grid_has_blocks_take_several_rounds) {
    constexpr TubeMask mask{3, 1, 1};
    auto where = positions(2050);
    TestTensor order(DType::i64, {2050, 3}), expected = order_of(2050, mask);
    cuda::mask_tokens({seed, 0, epoch_.view(), view_of(std::span(where))}, mask, order.view(), stream_);
    EXPECT_EQ(order.bytes(), expected.bytes());
}

TEST_P(CudaMaskingTest, taking_has_the_bits_of_the_cpu) {
    for (const auto& [from, to] :
         {std::pair{DType::f32, DType::f32}, {DType::f32, DType::bf16}, {DType::bf16, DType::bf16}})
        for (const MaskingSizes& s : masking_sizes) {
            auto x = TestTensor::random(from, {s.samples, s.mask.tokens(), s.width}, 1);
            auto exact = converted(x, DType::f32), order = order_of(s.samples, s.mask);
            const Shape taken{s.samples, s.mask.visible_tokens(), s.width};
            TestTensor y(to, taken), cpu_y(DType::f32, taken);
            cuda::take_tokens(x.view(), order.view(), y.view(), stream_);
            cpu_.take_tokens(exact.view(), order.view(), cpu_y.view());
            EXPECT_EQ(y.bytes(), converted(cpu_y, to).bytes());
        }
}

TEST_P(CudaMaskingTest, filling_has_the_bits_of_the_cpu_and_its_sums_are_near) {
    for (const DType dtype : storage_types)
        for (const MaskingSizes& s : masking_sizes) {
            SCOPED_TRACE(testing::Message()
                         << name_of(dtype) << " " << s.samples << " x " << s.mask.places << " x " << s.width);
            const std::int64_t visible = s.mask.visible_tokens(), tokens = s.mask.tokens();
            const bool hides = visible < tokens;
            const Shape in{s.samples, visible, s.width}, out{s.samples, tokens, s.width};
            auto order = order_of(s.samples, s.mask), x = TestTensor::random(dtype, in, 1),
                 token = TestTensor::random(dtype, {s.width}, 2),
                 places = TestTensor::random(dtype, {tokens, s.width}, 3);
            auto exact_x = converted(x, DType::f32), exact_token = converted(token, DType::f32),
                 exact_places = converted(places, DType::f32);
            TestTensor y(dtype, out), cpu_y(DType::f32, out);
            const TensorView none;
            cuda::fill_tokens_forward(x.view(), hides ? token.view() : none, places.view(), order.view(),
                                      y.view(), stream_);
            cpu_.fill_tokens_forward(exact_x.view(), hides ? exact_token.view() : none, exact_places.view(),
                                     order.view(), cpu_y.view());
            EXPECT_EQ(y.bytes(), converted(cpu_y, dtype).bytes());

            auto dy = TestTensor::random(dtype, out, 4), exact_dy = converted(dy, DType::f32);
            TestTensor dx(dtype, in), cpu_dx(DType::f32, in);
            TestTensor dtoken(DType::f32, {s.width}), cpu_dtoken = dtoken;
            TestTensor workspace(DType::f64, {cuda::fill_tokens_workspace(dy.view(), visible)});
            cuda::fill_tokens_backward(dy.view(), workspace.view(), dx.view(), hides ? dtoken.view() : none,
                                       visible, stream_);
            cpu_.fill_tokens_backward(exact_dy.view(), cpu_dx.view(), hides ? cpu_dtoken.view() : none,
                                      visible);
            EXPECT_EQ(dx.bytes(), converted(cpu_dx, dtype).bytes());
            // Up to 1120 summands in fp32, the CPU's one after the other.
            if (hides) expect_near(dtoken.values(), cpu_dtoken.values(), 1e-5);
            const auto with_dx = dtoken.bytes();
            cuda::fill_tokens_backward(dy.view(), workspace.view(), {}, hides ? dtoken.view() : none, visible,
                                       stream_);
            EXPECT_EQ(dtoken.bytes(), with_dx);
        }
}

TEST_P(CudaMaskingTest, last_tokens_have_the_bits_of_the_cpu) {
    for (const DType dtype : storage_types)
        for (const MaskingSizes& s : masking_sizes) {
            const Shape all{s.samples, s.mask.tokens(), s.width},
                last{s.samples, s.mask.hidden_tokens(), s.width};
            auto x = TestTensor::random(dtype, all, 1), exact = converted(x, DType::f32);
            TestTensor y(dtype, last), cpu_y(DType::f32, last), dx(dtype, all), cpu_dx(DType::f32, all);
            cuda::last_tokens_forward(x.view(), y.view(), stream_);
            cpu_.last_tokens_forward(exact.view(), cpu_y.view());
            EXPECT_EQ(y.bytes(), converted(cpu_y, dtype).bytes());
            cuda::last_tokens_backward(y.view(), dx.view(), stream_);
            cpu_.last_tokens_backward(cpu_y.view(), cpu_dx.view());
            EXPECT_EQ(dx.bytes(), converted(cpu_dx, dtype).bytes());
        }
}

TEST_P(CudaMaskingTest, patch_differences_agree_with_the_cpu_also_in_place) {
    struct Case {
        std::int64_t samples;
        TubeMask mask;
        std::int64_t elements, channels;
    };
    // Channels that share a warp's lanes, evenly or not, one to a lane, and several to a lane.
    for (const Case& c : {Case{0, {4, 1, 2}, 8, 3},
                          {2, {4, 2, 0}, 8, 3},
                          {3, {4, 2, 3}, 1, 1},
                          {2, {3, 1, 2}, 33, 1},
                          {3, {5, 2, 4}, 512, 3},
                          {2, {3, 1, 2}, 40, 7},
                          {2, {3, 1, 2}, 16, 31},
                          {2, {3, 1, 2}, 5, 32},
                          {2, {3, 1, 1}, 3, 33},
                          {1, {3, 1, 2}, 2, 100},
                          {1, {2, 1, 1}, 1500, 2}}) {
        SCOPED_TRACE(testing::Message() << c.elements << " x " << c.channels);
        const std::int64_t width = c.elements * c.channels;
        const Shape hidden{c.samples, c.mask.hidden_tokens(), width};
        auto order = order_of(c.samples, c.mask);
        auto patches = TestTensor::random(DType::f32, {c.samples, c.mask.tokens(), width}, 1),
             prediction = TestTensor::random(DType::f32, hidden, 2),
             epsilon = TestTensor::random(DType::f32, {c.channels}, 3);
        for (std::size_t i = 0; i < epsilon.size(); ++i) epsilon.set(i, 0.25 + 0.125 * epsilon.get(i));
        TestTensor differences(DType::f32, hidden), expected = differences;
        cuda::patch_differences(prediction.view(), patches.view(), order.view(), epsilon.view(),
                                differences.view(), stream_);
        cpu_.patch_differences(prediction.view(), patches.view(), order.view(), epsilon.view(),
                               expected.view());
        // In double, added in another order: what is rounded may fall to either side.
        expect_near(differences.values(), expected.values(), 0x1p-22);
        cuda::patch_differences(prediction.view(), patches.view(), order.view(), epsilon.view(),
                                prediction.view(), stream_);
        EXPECT_EQ(prediction.bytes(), differences.bytes());
    }
}

TEST_P(CudaMaskingTest, memory_that_allows_no_wide_accesses) {
    constexpr TubeMask mask{4, 1, 2};
    const Shape all{2, 4, 8}, visible{2, 2, 8};
    const auto behind_first = [](TestTensor& tensor, const Shape& shape) {
        return without_first(tensor.view()).reshaped(shape);
    };
    const auto expect_shifted = [](const TestTensor& shifted, const TestTensor& expected) {
        std::vector<double> values = shifted.values();
        values.erase(values.begin());
        EXPECT_EQ(values, expected.values());
    };
    for (const DType dtype : storage_types) {
        auto order = order_of(2, mask);
        auto x = TestTensor::random(dtype, {65}, 1), token = TestTensor::random(dtype, {8}, 2),
             places = TestTensor::random(dtype, {4, 8}, 3);
        auto aligned = [&](std::int64_t count, const Shape& shape) {
            std::vector<double> values = x.values();
            return TestTensor(dtype, shape, {values.begin() + 1, values.begin() + 1 + count});
        };
        auto aligned_all = aligned(64, all), aligned_visible = aligned(32, visible);
        TestTensor taken(dtype, visible), shifted_taken(dtype, {33}), filled(dtype, all),
            shifted(dtype, {65});
        cuda::take_tokens(aligned_all.view(), order.view(), taken.view(), stream_);
        cuda::take_tokens(behind_first(x, all), order.view(), behind_first(shifted_taken, visible), stream_);
        expect_shifted(shifted_taken, taken);
        TestTensor shifted_visible(dtype, {33});
        for (std::size_t i = 0; i < 33; ++i) shifted_visible.set(i, x.get(i));
        cuda::fill_tokens_forward(aligned_visible.view(), token.view(), places.view(), order.view(),
                                  filled.view(), stream_);
        cuda::fill_tokens_forward(behind_first(shifted_visible, visible), token.view(), places.view(),
                                  order.view(), behind_first(shifted, all), stream_);
        expect_shifted(shifted, filled);
        TestTensor dtoken(DType::f32, {8}), other = dtoken;
        TestTensor workspace(DType::f64, {cuda::fill_tokens_workspace(filled.view(), 2)});
        cuda::fill_tokens_backward(aligned_all.view(), workspace.view(), taken.view(), dtoken.view(), 2,
                                   stream_);
        cuda::fill_tokens_backward(behind_first(x, all), workspace.view(),
                                   behind_first(shifted_taken, visible), other.view(), 2, stream_);
        expect_shifted(shifted_taken, taken);
        expect_near(other.values(), dtoken.values(), 1e-6);
        cuda::last_tokens_backward(aligned_visible.view(), filled.view(), stream_);
        cuda::last_tokens_backward(behind_first(shifted_visible, visible), behind_first(shifted, all),
                                   stream_);
        expect_shifted(shifted, filled);
    }
}

}  // namespace
}  // namespace tutti::test
