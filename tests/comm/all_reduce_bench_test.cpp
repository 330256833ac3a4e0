#include "tutti/comm/all_reduce_bench.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "thread_communicator.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// All calls but all_reduce of f32 go through; that one then spoils an element on one rank.
class Spoiled final : public Communicator {
  public:
    Spoiled(Communicator& inner, int rank, std::size_t element)
        : inner_(inner), rank_(rank), element_(element) {}
    int rank() const override { return inner_.rank(); }
    int size() const override { return inner_.size(); }
    std::string backend() const override { return inner_.backend(); }
    Work all_reduce(const TensorView& buffer, ReduceOp op) override {
        inner_.all_reduce(buffer, op).wait();
        if (buffer.dtype == DType::f32 && rank() == rank_) buffer.as<float>()[element_] += 1;
        return {};
    }
    Work reduce_scatter(const TensorView& input, const TensorView& output, ReduceOp op) override {
        return inner_.reduce_scatter(input, output, op);
    }
    Work all_gather(const TensorView& input, const TensorView& output) override {
        return inner_.all_gather(input, output);
    }
    Work broadcast(const TensorView& buffer, int root) override { return inner_.broadcast(buffer, root); }
    void barrier() override { inner_.barrier(); }
    std::unique_ptr<Communicator> duplicate() override { return inner_.duplicate(); }
    [[noreturn]] void abort(ExitCode code) noexcept override {
        inner_.abort(code);
        std::abort();
    }

  private:
    Communicator& inner_;
    int rank_;
    std::size_t element_;
};

AllReduceBench small_bench(Communicator& communicator) {
    AllReduceBench bench;
    bench.sizes = {4, 6, 4096, 20000};
    bench.iterations = 4;
    bench.warmup = 1;
    bench.bare = [&](std::span<float> buffer) {
        communicator.all_reduce(view_of(buffer), ReduceOp::sum).wait();
    };
    return bench;
}

TEST(all_reduce_bench, rows_are_the_same_on_every_rank_and_in_order) {
    std::array<std::vector<AllReduceRow>, 3> of_rank;
    test::run_on_threads(3, [&](Communicator& communicator) {
        auto& rows = of_rank[static_cast<std::size_t>(communicator.rank())];
        rows = bench_all_reduce(communicator, small_bench(communicator));
    });
    ASSERT_EQ(of_rank[0].size(), 4U);
    EXPECT_EQ(of_rank[0][1].bytes, 8U) << "whole elements";
    EXPECT_EQ(of_rank[0][3].bytes, 20000U);
    for (std::size_t i = 0; i < 4; ++i) {
        const AllReduceRow& row = of_rank[0][i];
        EXPECT_EQ(row.iterations, 4);
        EXPECT_GT(row.time.min, 0);
        EXPECT_LE(row.time.min, row.time.median);
        EXPECT_LE(row.time.median, row.time.max);
        EXPECT_GT(row.ratio, 0);
        EXPECT_DOUBLE_EQ(row.bus_bandwidth(3), static_cast<double>(row.bytes) / row.time.median * 4 / 3);
        for (const auto& rows : of_rank) {
            EXPECT_EQ(rows[i].time.median, row.time.median);
            EXPECT_EQ(rows[i].bare.max, row.bare.max);
            EXPECT_EQ(rows[i].ratio, row.ratio);
        }
    }
}

TEST(all_reduce_bench, a_wrong_sum_fails_every_rank_and_names_rank_and_element) {
    std::array<std::string, 3> said;
    test::run_on_threads(3, [&](Communicator& inner) {
        Spoiled communicator(inner, 1, 0);
        try {
            bench_all_reduce(communicator, small_bench(communicator));
        } catch (const AgreedError& error) {
            EXPECT_EQ(error.code(), ExitCode::failed);
            said[static_cast<std::size_t>(inner.rank())] = error.what();
        }
    });
    for (const std::string& text : said) {
        EXPECT_NE(text.find("element 0 is"), std::string::npos) << text;
        EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
        EXPECT_NE(text.find("4 bytes"), std::string::npos) << text;
    }
}

TEST(all_reduce_bench, one_rank_that_is_asked_to_stop_stops_all) {
    std::atomic<int> stopped = 0;
    test::run_on_threads(2, [&](Communicator& communicator) {
        AllReduceBench bench = small_bench(communicator);
        int asked = 0;
        if (communicator.rank() == 1) bench.stop = [&] { return ++asked > 7; };
        std::size_t rows = 0;
        bench.done = [&](const AllReduceRow&) { ++rows; };
        try {
            bench_all_reduce(communicator, bench);
        } catch (const AgreedError& error) {
            EXPECT_EQ(error.code(), ExitCode::failed);
            EXPECT_EQ(rows, 1U);
            ++stopped;
        }
    });
    EXPECT_EQ(stopped, 2);
}

TEST(all_reduce_bench, refuses_what_cannot_be_measured) {
    const auto communicator = make_single_communicator();
    for (const auto& sizes : {std::vector<std::uint64_t>{}, std::vector<std::uint64_t>{4, 0}}) {
        AllReduceBench bench = small_bench(*communicator);
        bench.sizes = sizes;
        EXPECT_THROW(bench_all_reduce(*communicator, bench), UsageError);
    }
    AllReduceBench bench = small_bench(*communicator);
    bench.iterations = -1;
    EXPECT_THROW(bench_all_reduce(*communicator, bench), UsageError);
    bench = small_bench(*communicator);
    bench.sizes = {
        std::uint64_t{15} << 60};  // more than a vector holds: sanitizers end a program that asks for it
    try {
        bench_all_reduce(*communicator, bench);
        ADD_FAILURE() << "no error";
    } catch (const AgreedError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
    }
}

TEST(all_reduce_bench, one_rank_costs_nothing) {
    const auto communicator = make_single_communicator();
    const auto rows = bench_all_reduce(*communicator, small_bench(*communicator));
    EXPECT_EQ(rows.front().bus_bandwidth(1), 0);
    EXPECT_TRUE(fit_cost(rows, 1).pieces().empty());
    EXPECT_EQ(fit_cost(rows, 2).residuals().size(), rows.size());
}

}  // namespace
}  // namespace tutti
