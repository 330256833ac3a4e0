// When steps are recorded and when they run as recordings, on a recorder that writes down what it is asked
// for.

#include "step_graph.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace tutti::test {
namespace {

struct FakeWork final : RecordedWork {
    FakeWork(std::function<void()> does, const bool& fresh) : work(std::move(does)), is_current(&fresh) {}
    bool current() const override { return *is_current; }
    void run() override { work(); }
    std::function<void()> work;
    const bool* is_current;
};

struct FakeRecorder final : WorkRecorder {
    void set(const RunValues& given) override { values = given; }
    std::unique_ptr<RecordedWork> record(const std::function<void()>& issue) override {
        ++recordings;
        if (!problem.empty()) throw RunError(problem);
        return std::make_unique<FakeWork>(issue, *fresh.back());
    }
    void fetch(const TensorView& from) override { std::memcpy(host, from.data, from.bytes()); }
    bool fetched() override { return ++asked % 3 == 0; }
    const std::byte* result() const override { return host; }
    /// What was recorded until now is out of date.
    void give_memory_back() {
        *fresh.back() = false;
        fresh.push_back(std::make_unique<bool>(true));
    }

    RunValues values;
    int recordings = 0, asked = 0;
    std::string problem;
    std::byte host[most_fetched];
    std::vector<std::unique_ptr<bool>> fresh;
    FakeRecorder() { fresh.push_back(std::make_unique<bool>(true)); }
};

struct FakeDevice final : Device {
    std::string kind() const override { return "fake"; }
    std::string description() const override { return "fake"; }
    Buffer allocate(std::size_t, const std::string&) override { return {}; }
    Buffer allocate_host(std::size_t, const std::string&) override { return {}; }
    bool uploads_ahead() const override { return false; }
    std::unique_ptr<UploadLane> make_upload_lane(std::span<const UploadPart>) override { return nullptr; }
    void copy_from_host(const TensorView&, const void*) override {}
    void copy_to_host(void*, const TensorView&) override {}
    Ops& ops(Arithmetic) override { throw std::logic_error("it does not compute"); }
    void set_progress(std::function<void()>) override {}
    WorkRecorder* recorder() override { return records ? &one : nullptr; }
    FakeRecorder one;
    bool records = true;
};

class StepGraphTest : public testing::Test {
  protected:
    /// One step: true where the graph had it. `others`: what the other ranks say.
    bool step(bool whole = true, bool wanted_elsewhere = false, bool impossible_elsewhere = false) {
        bool graphed = graph_->takes(whole, key_);
        if (graphed) {
            const TensorView sums{reinterpret_cast<std::byte*>(loss_), DType::f64, {3}};
            graphed = graph_->run(
                {3, positions_, 0.5},
                {[&] { ++forwards_; }, [&] { ++backwards_; }, [&] { ++forgotten_; }, [&] { ++meanwhile_; }},
                sums);
            graph_->wait_for_transfers();
        }
        StepSums sums;
        sums.set({}, false, false, false);
        graph_->tell(sums);
        wanted_ = sums.graph_wanted();
        told_impossible_ = sums.graph_impossible();
        sums.set_graph(wanted_ || wanted_elsewhere, told_impossible_ || impossible_elsewhere);
        graph_->hear(sums);
        return graphed;
    }
    std::vector<bool> steps(int count) {
        std::vector<bool> result;
        for (int i = 0; i < count; ++i) result.push_back(step());
        return result;
    }
    void make() { graph_ = std::make_unique<StepGraph>(config_, device_, *communicator_, nullptr, log_); }

    Log log_{0, 1, "here", LogLevel::error};
    Config config_;
    FakeDevice device_;
    std::unique_ptr<Communicator> communicator_ = make_single_communicator();
    double loss_[3] = {2.5, 4, 3};
    std::vector<std::int64_t> positions_{1, 2};
    std::byte memory_[4];
    StepGraph::Key key_{&memory_[0], &memory_[1], 0};
    int forwards_ = 0, backwards_ = 0, forgotten_ = 0, meanwhile_ = 0;
    bool wanted_ = false, told_impossible_ = false;
    std::unique_ptr<StepGraph> graph_;
};

using Steps = std::vector<bool>;

TEST_F(StepGraphTest, is_recorded_once_after_three_steps_and_runs_from_then_on) {
    make();
    EXPECT_EQ(steps(6), (Steps{false, false, false, true, true, true}));
    EXPECT_EQ(device_.one.recordings, 2) << "forward and backward";
    EXPECT_EQ(forwards_, 3);
    EXPECT_EQ(backwards_, 3);
    EXPECT_EQ(meanwhile_, 3);
    EXPECT_EQ(graph_->steps(), 3);
    EXPECT_EQ(device_.one.values.epoch, 3);
    EXPECT_EQ(device_.one.values.loss_scale, 0.5);
    EXPECT_EQ(graph_->loss().loss, 2.5);
    EXPECT_EQ(graph_->loss().weight, 4);
    EXPECT_EQ(graph_->loss().correct, 3);
}

TEST_F(StepGraphTest, a_step_of_another_kind_is_the_callers) {
    make();
    EXPECT_FALSE(step(false));
    steps(4);
    EXPECT_FALSE(step(false));
    EXPECT_FALSE(wanted_);
    EXPECT_TRUE(step());
}

TEST_F(StepGraphTest, batches_in_two_places_have_a_recording_each) {
    make();
    Steps result;
    for (int i = 0; i < 8; ++i) {
        key_.input = &memory_[2 + i % 2];
        result.push_back(step());
    }
    EXPECT_EQ(result, (Steps{false, false, false, true, true, true, true, true}));
    EXPECT_EQ(device_.one.recordings, 4);
}

TEST_F(StepGraphTest, other_buckets_and_memory_that_was_given_back_are_recorded_again) {
    make();
    steps(8);
    key_.bucket_plans = 1;
    EXPECT_EQ(steps(3), (Steps{false, true, true}));
    EXPECT_EQ(device_.one.recordings, 4);
    steps(4);
    device_.one.give_memory_back();
    EXPECT_EQ(steps(3), (Steps{false, true, true}));
    EXPECT_EQ(device_.one.recordings, 6);
}

TEST_F(StepGraphTest, all_ranks_record_when_one_has_to) {
    make();
    steps(8);
    EXPECT_EQ(device_.one.recordings, 2);
    EXPECT_TRUE(step(true, true)) << "what it has is good until all record";
    EXPECT_TRUE(step());
    EXPECT_EQ(device_.one.recordings, 4);
}

TEST_F(StepGraphTest, what_cannot_be_recorded_is_left_to_the_caller_for_good) {
    make();
    device_.one.problem = "the device says no";
    EXPECT_EQ(steps(5), (Steps{false, false, false, false, false}));
    EXPECT_EQ(device_.one.recordings, 1);
    EXPECT_EQ(forgotten_, 1);
    EXPECT_EQ(forwards_, 0);
    EXPECT_TRUE(told_impossible_);
    EXPECT_EQ(graph_->reason(), "the device says no");
}

TEST_F(StepGraphTest, no_rank_records_what_another_could_not) {
    make();
    EXPECT_EQ(steps(4).back(), true);
    EXPECT_TRUE(step(true, false, true));
    EXPECT_FALSE(step());
    EXPECT_EQ(graph_->reason(), "another rank could not record it");
}

TEST_F(StepGraphTest, says_what_is_against_it_and_refuses_where_it_was_demanded) {
    config_.train.accumulate = 2;
    make();
    EXPECT_EQ(graph_->reason(), "train.accumulate is above 1");
    EXPECT_EQ(steps(5), Steps(5, false));
    config_.run.cuda_graph = CudaGraphChoice::always;
    EXPECT_THROW(make(), UsageError);
    config_.train.accumulate = 1;
    EXPECT_NO_THROW(make());
    device_.records = false;
    EXPECT_THROW(make(), UsageError);
    config_.run.cuda_graph = CudaGraphChoice::automatic;
    make();
    EXPECT_EQ(graph_->reason(), "");
    EXPECT_EQ(steps(5), Steps(5, false));
}

TEST_F(StepGraphTest, nothing_is_recorded_where_nobody_wants_it) {
    config_.run.cuda_graph = CudaGraphChoice::never;
    make();
    EXPECT_EQ(steps(5), Steps(5, false));
    EXPECT_EQ(device_.one.recordings, 0);
    EXPECT_EQ(graph_->reason(), "");
}

}  // namespace
}  // namespace tutti::test
