#include "tutti/train/location.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "training_fixture.hpp"
#include "tutti/base/spread.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/train/evaluation.hpp"
#include "tutti/train/objective.hpp"

namespace tutti {
namespace {

TEST(Location, IsTheFirstCellOfTheGreatestHeat) {
    // [2, 3, 2]: heat 0 4 1 / 4 -1 2, presence 1 to 6.
    const std::vector<double> outputs{0, 1, 4, 2, 1, 3, 4, 4, -1, 5, 2, 6};
    const Location location = find_location(outputs, {2, 3, 2}, {8});
    EXPECT_EQ(location.peak, 4);
    EXPECT_EQ(location.x, 8);
    EXPECT_EQ(location.y, 0);
    EXPECT_DOUBLE_EQ(location.logit, 3.5);
    EXPECT_DOUBLE_EQ(location.probability(), 1 / (1 + std::exp(-3.5)));
    EXPECT_DOUBLE_EQ(location.score(), 0.5 * location.probability() + 2);
    EXPECT_EQ(values_of(location)[0], location.score());
    EXPECT_EQ(values_of(location)[5], 0);
}

TEST(Location, OfHeatThatIsNoNumber) {
    const std::vector<double> outputs{1, 0, std::nan(""), 0, 9, 0, std::nan(""), 0};
    const Location location = find_location(outputs, {2, 2, 2}, {4});
    EXPECT_TRUE(std::isnan(location.peak));
    EXPECT_EQ(location.x, 4);
    EXPECT_EQ(location.y, 0);
}

TEST(Location, MayBeTheMeanOfItsHeat) {
    // [2, 3, 2]: heat 0 4 1 / 4 -1 2.
    const std::vector<double> outputs{0, 1, 4, 2, 1, 3, 4, 4, -1, 5, 2, 6};
    const double heat[] = {0, 4, 1, 4, -1, 2};
    for (const double temperature : {0.25, 1.0, 7.0}) {
        double weights = 0, x = 0, y = 0;
        for (int cell = 0; cell < 6; ++cell) {
            const double weight = std::exp(heat[cell] / temperature);
            weights += weight;
            x += weight * (cell % 3);
            y += weight * (cell / 3);
        }
        const Location location = find_location(outputs, {2, 3, 2}, {8, temperature});
        EXPECT_NEAR(location.x, 8 * x / weights, 1e-12);
        EXPECT_NEAR(location.y, 8 * y / weights, 1e-12);
        EXPECT_EQ(location.peak, 4);
        EXPECT_DOUBLE_EQ(location.logit, 3.5);
    }
    // Cold, it is the greatest cell, or between equal ones; no heat is too large to be weighed.
    const std::vector<double> one{1, 0, 3000, 0, 2, 0, 0, 0};
    EXPECT_EQ(find_location(one, {2, 2, 2}, {4, 1e-3}).x, 4);
    EXPECT_EQ(find_location(one, {2, 2, 2}, {4, 1e-3}).y, 0);
    const Location between = find_location(outputs, {2, 3, 2}, {8, 1e-3});
    EXPECT_DOUBLE_EQ(between.x, 4);
    EXPECT_DOUBLE_EQ(between.y, 4);
    const std::vector<double> none{1, 0, std::nan(""), 0};
    EXPECT_TRUE(std::isnan(find_location(none, {1, 2, 2}, {4, 1}).x));
    EXPECT_TRUE(std::isnan(find_location(none, {1, 2, 2}, {4, 1}).place().y));
}

TEST(Location, PresenceIsPredictedByAScore) {
    const Location unsure{.logit = -0.5, .peak = 0.9, .x = 0, .y = 0};  // 0.3775 and 0.6388
    LocationDecoding decoding;
    EXPECT_FALSE(decoding.predicts_presence(unsure));
    EXPECT_EQ(decoding.ranking_score(unsure), -0.5);
    decoding.presence_threshold = 0.375;
    EXPECT_TRUE(decoding.predicts_presence(unsure));
    decoding = {.presence_score = PresenceScore::mean};
    EXPECT_TRUE(decoding.predicts_presence(unsure));
    EXPECT_EQ(decoding.ranking_score(unsure), static_cast<float>(unsure.score())) << "as predictions have it";
    decoding.presence_threshold = 0.64;
    EXPECT_FALSE(decoding.predicts_presence(unsure));
    EXPECT_FALSE(LocationDecoding().predicts_presence({.logit = std::nan(""), .peak = 1, .x = 0, .y = 0}));
}

TEST(Location, HeatIsComparedCellByCell) {
    const LocationLoss loss{.stride = 2, .sigma = 2};
    const std::vector<double> outputs{0.5, 9, 1, 9};  // [1, 2, 2]
    const std::vector<float> there{1, 2, 0}, nothing{0, 2, 0};
    const double beside = 0.5 - std::exp(-0.5);
    EXPECT_DOUBLE_EQ(heat_map_loss(outputs, {1, 2, 2}, loss, there), beside * beside / 2);
    EXPECT_DOUBLE_EQ(heat_map_loss(outputs, {1, 2, 2}, loss, nothing), (0.495 * 0.495 + 0.995 * 0.995) / 2);
}

TEST(Location, PresenceIsBinaryCrossEntropy) {
    EXPECT_DOUBLE_EQ(presence_loss(0, true), std::log(2.0));
    EXPECT_DOUBLE_EQ(presence_loss(1.5, true), -std::log(1 / (1 + std::exp(-1.5))));
    EXPECT_DOUBLE_EQ(presence_loss(1.5, false), std::log(1 + std::exp(1.5)));
    EXPECT_EQ(presence_loss(2000, false), 2000);
    EXPECT_EQ(presence_loss(-2000, true), 2000);
    EXPECT_TRUE(std::isnan(presence_loss(std::nan(""), true)));
}

/// Images {8, 12, 1} with a bright pixel where the thing is, of which every third has none.
class Spots final : public Dataset {
  public:
    explicit Spots(std::int64_t samples) {
        info_.samples = samples;
        info_.sample_shape = {8, 12, 1};
        info_.labelled = false;
        info_.targets = location_targets;
        for (std::int64_t i = 0; i < samples; ++i)
            if (i % 3 == 2)
                targets_.insert(targets_.end(), {0, 0, 0});
            else
                targets_.insert(targets_.end(),
                                {1, static_cast<float>(i * 5 % 12), static_cast<float>(i * 3 % 8)});
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "spots"; }
    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> labels) const override {
        for (std::size_t i = 0; i < indices.size(); ++i) {
            labels[i] = 0;
            for (std::size_t pixel = 0; pixel < 96; ++pixel)
                samples[96 * i + pixel] =
                    static_cast<std::byte>((31 * static_cast<std::size_t>(indices[i]) + 7 * pixel) % 97);
        }
    }
    std::span<const float> targets() const override { return targets_; }

  private:
    DatasetInfo info_;
    std::vector<float> targets_;
};

GraphSpec small_locator() {
    GraphSpec spec({8, 12, 1});
    Conv2dOptions o;
    o.out = 2;
    o.kernel_h = o.kernel_w = o.stride_h = o.stride_w = 4;
    spec.add("head", make_conv2d({8, 12, 1}, o), {0});
    return spec;
}

const LocationLoss weights{.stride = 4, .sigma = 3, .heat_map_weight = 5, .presence_weight = 2};

EvaluationResult evaluated_on(int ranks, const Spots& data, std::int64_t virtual_shards,
                              const Geography* geography = nullptr) {
    std::vector<EvaluationResult> results(static_cast<std::size_t>(ranks));
    test::run_on_threads(ranks, [&](Communicator& world) {
        const auto device = make_cpu_device(1);
        constexpr std::int64_t batch = 4;
        Graph graph(small_locator(), *device, {DType::f64}, batch);
        graph.initialize(3);
        const auto loss = make_location_loss(*device, DType::f64, weights);
        BatchStage stage(*device, data.info(), {}, DType::f64, batch);
        Loader loader(data, batch, 0, 2, device.get());
        results[static_cast<std::size_t>(world.rank())] =
            evaluate({.lanes = {{graph, *loss, stage}},
                      .dataset = data,
                      .loader = loader,
                      .communicator = world,
                      .batch_size = batch,
                      .metrics = {.topk = 5,  // of its outputs, which are no classes
                                  .location = LocationTask{weights, {weights.stride}}},
                      .geography = geography,
                      .virtual_shards = virtual_shards,
                      .device = virtual_shards > 0 ? device.get() : nullptr});
    });
    for (const EvaluationResult& result : results) EXPECT_EQ(result.loss, results.front().loss);
    return results.front();
}

/// [samples · 12]: of all samples in one batch.
std::vector<double> outputs_of(const Spots& data) {
    const std::int64_t samples = data.info().samples;
    const auto device = make_cpu_device(1);
    Graph graph(small_locator(), *device, {DType::f64}, samples);
    graph.initialize(3);
    BatchStage stage(*device, data.info(), {}, DType::f64, samples);
    Loader loader(data, samples, 0, 2, device.get());
    std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    stage.start(
        loader, order,
        epoch_windows({.cursor = 0, .limit = samples, .batch_size = samples, .world_size = 1, .rank = 0}));
    const auto batch = stage.next(loader);
    stage.load(*batch, graph.input(samples));
    const TensorView outputs = graph.forward(samples, {Phase::evaluate, 0, 0, batch->positions});
    return {outputs.as<double>(), outputs.as<double>() + outputs.count()};
}

TEST(Location, EvaluationsCountEachSampleOnceOnAnyNumberOfRanks) {
    constexpr std::int64_t samples = 23;
    const Spots data(samples);
    const std::vector<double> outputs = outputs_of(data);
    const std::span<const double> all = outputs;
    double presence = 0, distance = 0, heat = 0;
    std::int64_t present = 0, right = 0, near = 0;
    for (std::size_t n = 0; n < samples; ++n) {
        const Location said = find_location(all.subspan(12 * n, 12), {2, 3, 2}, {4});
        const float* const target = data.targets().data() + 3 * n;
        const bool there = target[0] > 0.5f;
        presence += presence_loss(said.logit, there);
        right += (said.logit > 0) == there ? 1 : 0;
        for (std::size_t cell = 0; cell < 6; ++cell) {
            const double x = 4.0 * static_cast<double>(cell % 3) - static_cast<double>(target[1]),
                         y = 4.0 * static_cast<double>(cell / 3) - static_cast<double>(target[2]);
            const double difference =
                all[12 * n + 2 * cell] - (there ? std::exp(-(x * x + y * y) / 18) : 0.005);
            heat += difference * difference / 6;
        }
        if (!there) continue;
        ++present;
        const double off =
            std::hypot(said.x - static_cast<double>(target[1]), said.y - static_cast<double>(target[2]));
        distance += off;
        near += off <= 8 ? 1 : 0;
    }
    ASSERT_GT(near, 0);
    ASSERT_LT(near, present);
    const EvaluationResult one = evaluated_on(1, data, 4);
    for (const int ranks : {1, 2, 3, 4})
        for (const std::int64_t shards : {0, 4}) {
            if (shards > 0 && ranks == 3) continue;
            SCOPED_TRACE(testing::Message() << ranks << " ranks, " << shards << " shards");
            const EvaluationResult result = evaluated_on(ranks, data, shards);
            EXPECT_EQ(result.weight, samples);
            EXPECT_EQ(result.correct, right);
            EXPECT_EQ(result.of_label, (std::vector<std::int64_t>{samples - present, present}));
            EXPECT_EQ(result.confusion[0] + result.confusion[3], right);
            EXPECT_NEAR(result.presence_loss(), presence / samples, 1e-12);
            EXPECT_NEAR(result.heat_map_loss(), heat / samples, 1e-12);
            EXPECT_NEAR(result.mean_loss(), (5 * heat + 2 * presence) / samples, 1e-12);
            EXPECT_NEAR(result.distance(), distance / static_cast<double>(present), 1e-12);
            EXPECT_EQ(result.metric("val/distance"), result.distance());
            EXPECT_DOUBLE_EQ(result.within(0), static_cast<double>(near) / static_cast<double>(present));
            EXPECT_EQ(result.within(3), 1);
            EXPECT_TRUE(result.detection());
            EXPECT_EQ(result.targets, 0);
            EXPECT_EQ(result.topk, 0);
            if (shards == 0) continue;
            EXPECT_EQ(result.loss, one.loss);
            EXPECT_EQ(result.location->presence_loss, one.location->presence_loss);
            EXPECT_EQ(result.location->distance, one.location->distance);
        }
}

TEST(Location, OnTheEarthPlacesAreOffByKilometres) {
    constexpr std::int64_t samples = 23;
    const Spots data(samples);
    // A picture of 40 x 60 pixels of 0.3 degrees from 60 N, 0 E on, which shows no earth from column 40 on.
    std::vector<double> latitudes, longitudes;
    for (int i = 0; i < 40 * 60; ++i) {
        latitudes.push_back(60 - 0.3 * (i / 60));
        longitudes.push_back(i % 60 < 40 ? 0.3 * (i % 60) : std::nan(""));
    }
    std::vector<SamplePlacement> placements;
    for (int i = 0; i < samples; ++i) placements.push_back({2.0 * i, 1.0 * i, 1, 0.5});
    const Geography geography(GeoGrid(40, 60, latitudes, longitudes), placements);
    const std::vector<double> outputs = outputs_of(data);
    std::vector<double> kilometres, distances;
    std::int64_t unknown = 0;
    for (std::size_t n = 0; n < samples; ++n) {
        const float* const target = data.targets().data() + 3 * n;
        if (target[0] < 0.5f) continue;
        const Location said = find_location(std::span(outputs).subspan(12 * n, 12), {2, 3, 2}, {4});
        const double x = static_cast<double>(target[1]), y = static_cast<double>(target[2]);
        distances.push_back(std::hypot(said.x - x, said.y - y));
        const double i = static_cast<double>(n);
        const auto on_map = [&](double column, double row) {
            return EarthPosition{60 - 0.3 * (i + 0.5 * row), 0.3 * (2 * i + column)};
        };
        if (2 * i + std::max(said.x, x) >= 40)
            ++unknown;
        else
            kilometres.push_back(great_circle_km(on_map(said.x, said.y), on_map(x, y)));
    }
    ASSERT_GT(unknown, 0);
    ASSERT_GT(kilometres.size(), 5U);
    double sum = 0, within = 0;
    for (const double km : kilometres) {
        sum += km;
        within += km <= 100 ? 1 : 0;
    }
    ASSERT_GT(within, 0);
    const auto count = static_cast<double>(kilometres.size());
    const EvaluationResult one = evaluated_on(1, data, 4, &geography);
    for (const int ranks : {1, 2, 3, 4})
        for (const std::int64_t shards : {0, 4}) {
            if (shards > 0 && ranks == 3) continue;
            const EvaluationResult result = evaluated_on(ranks, data, shards, &geography);
            ASSERT_TRUE(result.earth);
            EXPECT_EQ(result.earth->samples, std::ssize(kilometres));
            EXPECT_NEAR(result.km(), sum / count, 0.01 * sum / count);  // of pixels as large as 33 km
            EXPECT_NEAR(result.earth->median, median(kilometres), 0.01 * median(kilometres));
            EXPECT_DOUBLE_EQ(result.within_km(2), within / count);
            EXPECT_EQ(result.median_distance, median(distances));
            EXPECT_EQ(result.metric("val/km"), result.km());
            if (shards == 0) continue;
            EXPECT_EQ(result.earth->km, one.earth->km);
        }
    EXPECT_FALSE(evaluated_on(1, data, 0).earth);
    EXPECT_TRUE(std::isnan(evaluated_on(1, data, 0).metric("val/km")));
    EXPECT_NE(score_text(one).find(fmt::format(", {:.1f} km", one.km())), std::string::npos);
}

TEST(Location, WithoutASampleThatHasTheThingNothingIsFarOrNear) {
    EvaluationResult result;
    result.location.emplace();
    result.of_label = {7, 0};
    result.weight = 7;
    EXPECT_TRUE(std::isnan(result.distance()));
    EXPECT_TRUE(std::isnan(result.within(1)));
    EXPECT_EQ(score_text(result), "accuracy 0.0000 (0 of 7), none is present");
    EXPECT_FALSE(improves("val/distance", result.distance(), 3));
}

}  // namespace
}  // namespace tutti
