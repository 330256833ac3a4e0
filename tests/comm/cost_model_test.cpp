#include "tutti/comm/cost_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

constexpr double kib = 1024, mib = 1024 * kib;

std::vector<double> powers(double first, double last) {
    std::vector<double> sizes;
    for (double bytes = first; bytes <= last; bytes *= 2) sizes.push_back(bytes);
    return sizes;
}

std::vector<CostSample> sample(const CostModel& truth, const std::vector<double>& sizes) {
    std::vector<CostSample> samples;
    for (const double bytes : sizes) samples.push_back({bytes, truth.seconds(bytes)});
    return samples;
}

struct Synthetic {
    std::string name;
    std::vector<CostPiece> pieces;
};

class RecoversExactly : public testing::TestWithParam<Synthetic> {};

TEST_P(RecoversExactly, pieces_and_times) {
    const CostModel truth(GetParam().pieces);
    const auto samples = sample(truth, powers(4 * kib, 256 * mib));
    const CostModel model = fit_cost(samples);
    ASSERT_EQ(model.pieces().size(), GetParam().pieces.size());
    for (std::size_t k = 0; k < model.pieces().size(); ++k) {
        const CostPiece& found = model.pieces()[k];
        const CostPiece& given = GetParam().pieces[k];
        EXPECT_NEAR(found.alpha, given.alpha, 1e-6 * std::abs(given.alpha) + 1e-12) << "piece " << k;
        EXPECT_NEAR(found.seconds_per_byte, given.seconds_per_byte, 1e-6 * given.seconds_per_byte + 1e-20)
            << "piece " << k;
        EXPECT_LE(found.from_bytes, given.from_bytes * 2) << "piece " << k;
        EXPECT_GE(found.from_bytes, given.from_bytes / 2) << "piece " << k;
    }
    EXPECT_LT(model.worst_residual(), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(
    cost_model, RecoversExactly,
    testing::Values(
        Synthetic{"one_line", {{0, 20e-6, 1e-9}}}, Synthetic{"no_latency", {{0, 0, 2e-10}}},
        Synthetic{"latency_only", {{0, 1e-3, 0}}},
        // The lines meet at 4 MiB: a memory behind the caches.
        Synthetic{"steeper_from_4_MiB", {{0, 1e-6, 1e-10}, {4 * mib, 1e-6 - 4 * mib * 3e-10, 4e-10}}},
        // A jump: a rendezvous that costs another round trip.
        Synthetic{"protocol_switch", {{0, 5e-6, 1e-9}, {90 * kib, 400e-6, 1e-9}}},
        Synthetic{"three_pieces", {{0, 10e-6, 2e-9}, {100 * kib, 300e-6, 1e-9}, {12 * mib, 10e-3, 3e-9}}}),
    [](const auto& row) { return row.param.name; });

TEST(cost_model, two_lines_that_cross_take_over_at_their_crossing) {
    const double crossing = 4 * mib;
    const CostModel truth({{0, 1e-6, 1e-10}, {crossing, 1e-6 - crossing * 3e-10, 4e-10}});
    // 3 and 6 MiB are sampled, their crossing is not.
    std::vector<double> sizes = {64 * kib, 512 * kib, 1 * mib, 3 * mib, 6 * mib, 12 * mib, 48 * mib};
    const CostModel model = fit_cost(sample(truth, sizes));
    ASSERT_EQ(model.pieces().size(), 2U);
    EXPECT_NEAR(model.pieces()[1].from_bytes, crossing, 1e-3 * crossing);
}

TEST(cost_model, noise_does_not_make_pieces) {
    const CostModel truth({{0, 50e-6, 1e-9}});
    for (unsigned seed = 0; seed < 20; ++seed) {
        std::mt19937 random(seed);
        std::normal_distribution<double> error(0, 0.05);
        auto samples = sample(truth, powers(4 * kib, 256 * mib));
        for (CostSample& one : samples) one.seconds *= 1 + error(random);
        const CostModel model = fit_cost(samples);
        EXPECT_EQ(model.pieces().size(), 1U) << "seed " << seed;
        for (const CostSample& one : sample(truth, powers(4 * kib, 256 * mib)))
            EXPECT_NEAR(model.seconds(one.bytes), one.seconds, 0.15 * one.seconds) << "seed " << seed;
    }
}

TEST(cost_model, a_switch_is_found_under_noise) {
    const CostModel truth({{0, 10e-6, 1e-10}, {4 * mib, -4 * mib * 4e-10, 5e-10}});
    for (unsigned seed = 0; seed < 20; ++seed) {
        std::mt19937 random(seed);
        std::normal_distribution<double> error(0, 0.03);
        auto samples = sample(truth, powers(4 * kib, 256 * mib));
        for (CostSample& one : samples) one.seconds *= 1 + error(random);
        EXPECT_GE(fit_cost(samples).pieces().size(), 2U) << "seed " << seed;
    }
}

TEST(cost_model, one_sample_is_a_time_in_proportion_to_the_bytes) {
    const CostModel model = fit_cost(std::vector<CostSample>{{mib, 1e-3}});
    ASSERT_EQ(model.pieces().size(), 1U);
    EXPECT_DOUBLE_EQ(model.seconds(mib), 1e-3);
    EXPECT_DOUBLE_EQ(model.seconds(2 * mib), 2e-3);
    EXPECT_DOUBLE_EQ(model.seconds(0), 0);
}

TEST(cost_model, repeated_samples_of_one_size_stay_in_one_piece) {
    const std::vector<CostSample> samples(9, CostSample{mib, 1e-3});
    const CostModel model = fit_cost(samples);
    EXPECT_EQ(model.pieces().size(), 1U);
    EXPECT_DOUBLE_EQ(model.seconds(mib), 1e-3);
    const CostModel empty_calls = fit_cost(std::vector<CostSample>{{0, 2e-6}, {0, 2e-6}});
    EXPECT_DOUBLE_EQ(empty_calls.seconds(0), 2e-6);
}

TEST(cost_model, the_order_of_samples_does_not_matter_and_residuals_follow_it) {
    auto samples = sample(CostModel({{0, 5e-6, 1e-9}}), powers(kib, 64 * mib));
    samples[3].seconds *= 1.5;
    const CostModel sorted = fit_cost(samples, 1);
    std::reverse(samples.begin(), samples.end());
    const CostModel reversed = fit_cost(samples, 1);
    EXPECT_TRUE(std::equal(sorted.pieces().begin(), sorted.pieces().end(), reversed.pieces().begin(),
                           reversed.pieces().end()));
    ASSERT_EQ(reversed.residuals().size(), samples.size());
    const std::size_t slow = samples.size() - 4;
    EXPECT_DOUBLE_EQ(reversed.residuals()[slow],
                     reversed.seconds(samples[slow].bytes) / samples[slow].seconds - 1);
    EXPECT_LT(reversed.residuals()[slow], -0.2);
    EXPECT_DOUBLE_EQ(reversed.worst_residual(), -reversed.residuals()[slow]);
}

TEST(cost_model, never_falls_as_bytes_grow) {
    // Falling samples, and pieces of which a later one lies below the end of an earlier one.
    const CostModel fitted =
        fit_cost(std::vector<CostSample>{{kib, 5e-3}, {2 * kib, 4e-3}, {4 * kib, 3e-3}, {8 * kib, 2e-3}});
    const CostModel overlapping({{0, 1e-3, 1e-9}, {mib, 1e-6, 1e-10}, {32 * mib, -0.01, 1e-9}});
    for (const CostModel& model : {fitted, overlapping}) {
        double before = 0;
        for (double bytes = 1; bytes < 256 * mib; bytes *= 1.05) {
            EXPECT_GE(model.seconds(bytes), before) << bytes;
            before = model.seconds(bytes);
        }
    }
}

TEST(cost_model, the_pieces_of_a_fit_say_what_the_model_says) {
    // A jump up, and lines behind it that begin below its end: one that comes up to it, one that does not.
    for (const double slope : {1e-9, 1e-12}) {
        std::vector<CostSample> samples;
        for (const double bytes : powers(kib, 64 * kib)) samples.push_back({bytes, 50e-6 + 100e-9 * bytes});
        for (const double bytes : powers(128 * kib, 64 * mib))
            samples.push_back({bytes, 1e-3 + slope * bytes});
        const CostModel model = fit_cost(samples);
        ASSERT_GE(model.pieces().size(), 2u);
        for (double bytes = 1; bytes < 256 * mib; bytes *= 1.05) {
            const CostPiece* its = nullptr;
            for (const CostPiece& piece : model.pieces())
                if (piece.from_bytes <= bytes) its = &piece;
            ASSERT_NE(its, nullptr);
            EXPECT_NEAR(its->alpha + its->seconds_per_byte * bytes, model.seconds(bytes),
                        1e-9 * model.seconds(bytes))
                << bytes;
        }
    }
}

TEST(cost_model, a_default_model_costs_nothing) {
    EXPECT_EQ(CostModel().seconds(mib), 0);
    EXPECT_EQ(CostModel().worst_residual(), 0);
}

TEST(cost_model, rejects_what_is_not_a_sample_or_a_piece) {
    const double inf = std::numeric_limits<double>::infinity();
    EXPECT_THROW(fit_cost({}), UsageError);
    for (const CostSample& bad : {CostSample{-1, 1}, CostSample{1, 0}, CostSample{1, -1}, CostSample{inf, 1},
                                  CostSample{1, std::nan("")}})
        EXPECT_THROW(fit_cost(std::vector<CostSample>{{mib, 1e-3}, bad}), UsageError);
    EXPECT_THROW(CostModel({{1, 0, 0}}), UsageError);
    EXPECT_THROW(CostModel({{0, 0, 0}, {0, 0, 0}}), UsageError);
    EXPECT_THROW(CostModel({{0, 0, -1}}), UsageError);
    EXPECT_THROW(CostModel({{0, inf, 0}}), UsageError);
}

TEST(cost_model, latency_is_what_of_a_transfer_does_not_keep_the_next_one_waiting) {
    const CostModel model({{0, 1e-3, 1e-9}});
    EXPECT_EQ(model.latency(), 0);
    EXPECT_EQ(model.occupied(1e6), model.seconds(1e6));
    const CostModel late = model.with_latency(0.75e-3);
    EXPECT_EQ(late.latency(), 0.75e-3);
    EXPECT_EQ(late.seconds(1e6), 2e-3);
    EXPECT_DOUBLE_EQ(late.occupied(1e6), 1.25e-3);
    EXPECT_EQ(model.with_latency(5e-3).occupied(0), 0) << "not more than a transfer of nothing takes";
    EXPECT_EQ(model.with_latency(-1).latency(), 0);
    EXPECT_EQ(cost_model_from_json(to_json(late)).latency(), 0.75e-3);
}

TEST(cost_model, several_transfers_are_cheaper_than_one_where_it_steepens) {
    const CostModel line({{0, 1, 0.01}});
    EXPECT_EQ(line.least_seconds(300), line.seconds(300));
    EXPECT_EQ(line.with_latency(0.5).least_seconds(300), line.seconds(300));
    EXPECT_EQ(CostModel().least_seconds(300), 0);
    // 2 s for 100 bytes, 7 for 200.
    const CostModel steeper({{0, 1, 0.01}, {100, -3, 0.05}});
    EXPECT_DOUBLE_EQ(steeper.least_seconds(200), 4);
    EXPECT_DOUBLE_EQ(steeper.with_latency(0.5).least_seconds(200), 0.5 + 2 * 1.5);
    EXPECT_EQ(steeper.least_seconds(80), steeper.seconds(80));
    // A jump, and a line that holds 2 s until 200 bytes.
    EXPECT_DOUBLE_EQ(CostModel({{0, 1, 0.01}, {100, 5, 0.01}}).least_seconds(200), 4);
    EXPECT_DOUBLE_EQ(CostModel({{0, 1, 0.01}, {100, -1, 0.015}}).least_seconds(400), 4);
}

TEST(cost_model, no_cut_takes_less_than_the_least_seconds) {
    std::mt19937 generator(3);
    std::uniform_real_distribution<double> unit(0, 1);
    for (int round = 0; round < 200; ++round) {
        const double jump = unit(generator) - 0.5, steeper = 3 * unit(generator);
        const CostModel model = CostModel({{0, 1, 0.01}, {100, 1 + jump, 0.01 * steeper}, {180, -2, 0.04}})
                                    .with_latency(unit(generator));
        const double bytes = 400 * unit(generator), least = model.least_seconds(bytes);
        for (int parts = 1; parts <= 8; ++parts) {
            double left = bytes, seconds = model.latency();
            for (int part = 1; part < parts; ++part) {
                const double size = left * unit(generator);
                seconds += model.occupied(size);
                left -= size;
            }
            EXPECT_GE(seconds + model.occupied(left), least - 1e-12) << parts << " of " << bytes;
        }
    }
}

TEST(cost_model, processor_time_bounds_what_a_transfer_takes_beside_a_computation) {
    const CostModel model = CostModel({{0, 1e-3, 1e-9}}).with_latency(0.5e-3);
    EXPECT_EQ(model.taken(1e6), 0);
    EXPECT_EQ(model.occupied_beside(1e6), model.occupied(1e6));
    const CostModel busy = model.with_processor({1e-3, 0.5e-9});
    EXPECT_DOUBLE_EQ(busy.taken(1e6), 1.5e-3);
    EXPECT_DOUBLE_EQ(busy.occupied_beside(1e6), 1.5e-3);
    EXPECT_DOUBLE_EQ(busy.occupied_beside(1e7), 10.5e-3);
    EXPECT_EQ(busy.seconds(1e6), model.seconds(1e6));
    EXPECT_EQ(cost_model_from_json(to_json(busy)).processor(), (ProcessorCost{1e-3, 0.5e-9}));
    EXPECT_EQ(cost_model_from_json(R"({"pieces": []})").processor(), ProcessorCost{});
    for (const ProcessorCost& bad :
         {ProcessorCost{-1, 0}, ProcessorCost{0, -1}, ProcessorCost{std::nan(""), 0}})
        EXPECT_THROW(model.with_processor(bad), UsageError);
}

TEST(cost_model, survives_json_to_the_last_bit) {
    const CostModel model({{0, 1.0 / 3, 1e-9 / 7}, {4 * mib, -0.1, 1e-8 / 3}}, {0.1, -0.02});
    const CostModel again = cost_model_from_json(to_json(model));
    EXPECT_TRUE(std::equal(model.pieces().begin(), model.pieces().end(), again.pieces().begin(),
                           again.pieces().end()));
    EXPECT_TRUE(std::equal(model.residuals().begin(), model.residuals().end(), again.residuals().begin(),
                           again.residuals().end()));
}

TEST(cost_model, json_that_is_no_model_is_a_data_error) {
    for (const char* text :
         {"", "[]", "{}", R"({"pieces": [{"alpha": 1}]})",
          R"({"pieces": [{"from_bytes": 5, "alpha": 1, "seconds_per_byte": 1}]})", R"({"pieces": "x"})"})
        EXPECT_THROW(cost_model_from_json(text), DataError) << text;
}

}  // namespace
}  // namespace tutti
