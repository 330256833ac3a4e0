// When steps are recorded and when they run as recordings, on a recorder that writes down what it is asked
// for.

#include "step_graph.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "support/silent_communicator.hpp"
#include "support/thread_communicator.hpp"

namespace tutti::test {
namespace {

struct FakeWork final : RecordedWork {
    FakeWork(std::function<void()> does, const bool& fresh, std::shared_ptr<int> mark)
        : work(std::move(does)), is_current(&fresh), alive(std::move(mark)) {}
    bool current() const override { return *is_current; }
    void run() override { work(); }
    std::function<void()> work;
    const bool* is_current;
    std::shared_ptr<int> alive;
};

struct FakeRecorder final : WorkRecorder {
    void set(const RunValues& given) override { values = given; }
    std::unique_ptr<RecordedWork> record(const std::function<void()>& issue) override {
        ++recordings;
        if (on_record) on_record();
        if (!problem.empty()) throw RunError(problem);
        return std::make_unique<FakeWork>(issue, *fresh.back(), alive);
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
    std::function<void()> on_record;
    std::shared_ptr<int> alive = std::make_shared<int>(0);  // as long as a recording lives
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
        bool graphed = graph_->takes(whole, true, key_);
        if (graphed) {
            const TensorView sums{reinterpret_cast<std::byte*>(loss_), DType::f64, {3}};
            graphed = graph_->run(
                {3, positions_, 0.5},
                {[&] { ++forwards_; }, [&] { ++backwards_; }, [&] { ++forgotten_; }, [&] { ++meanwhile_; }},
                sums);
            graph_->wait_for_transfers();
        }
        StepSums sums;
        sums.set({}, false, false, {});
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
    void make() {
        graph_ = std::make_unique<StepGraph>(config_, device_, *communicator_, nullptr, *communicator_, log_);
    }

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
    config_.run.deterministic = true;
    EXPECT_THROW(make(), UsageError);
    config_.run.deterministic = false;
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

/// Of gradients: what is recorded takes no part in anything; fails on demand as NCCL would.
struct Transfers final : test::SilentCommunicator {
    explicit Transfers(Communicator& of) : world(of) {}
    int rank() const override { return world.rank(); }
    int size() const override { return world.size(); }
    std::string why_not_recordable() const override { return {}; }
    void before_abort(const std::shared_ptr<std::function<void()>>& given) override { release = given; }
    Work follow_recorded() override { return peer_is_lost ? Work(std::make_unique<Lost>(*this)) : Work(); }

    struct Lost final : Work::Transfer {
        explicit Lost(Transfers& of) : transfers(of) {}
        bool test() override {
            if (const auto function = transfers.release.lock()) (*function)();
            throw PeerError("rank 1 is lost");
        }
        void wait() override { test(); }
        Transfers& transfers;
    };
    Communicator& world;
    std::weak_ptr<std::function<void()>> release;
    bool given_up() const override { return failed; }
    bool peer_is_lost = false, failed = false;
};

/// One of several ranks, with its own device.
struct GraphRank {
    explicit GraphRank(Communicator& of) : world(of), log(of.rank(), of.size(), "here", LogLevel::error) {
        config.run.cuda_graph = CudaGraphChoice::always;
        graph.emplace(config, device, transfers, nullptr, world, log);
    }
    /// 'r': run as a recording, 'e': by the caller.
    char step(bool mine = true) {
        bool graphed = graph->takes(true, mine, {});
        if (graphed)
            graphed = graph->run({}, {[&] { ++runs; }, [] {}, [&] { ++forgotten; }, [] {}},
                                 {reinterpret_cast<std::byte*>(loss), DType::f64, {3}});
        StepSums sums;
        sums.set({}, false, false, {});
        graph->tell(sums);
        sums.all_reduce(world).wait();
        graph->hear(sums);
        return graphed ? 'r' : 'e';
    }
    std::string steps(int count) {
        std::string kinds;
        while (count-- > 0) kinds += step();
        return kinds;
    }

    Communicator& world;
    Config config;
    FakeDevice device;
    Transfers transfers{world};
    Log log;
    double loss[3] = {1, 1, 1};
    int runs = 0, forgotten = 0;
    std::optional<StepGraph> graph;
};

TEST(StepGraphRanks, all_leave_a_recording_that_is_out_of_date_on_one_and_record_together) {
    run_on_threads(3, [](Communicator& world) {
        GraphRank rank(world);
        EXPECT_EQ(rank.steps(8), "eeerrrrr");
        if (world.rank() == 1) rank.device.one.give_memory_back();
        EXPECT_EQ(rank.steps(3), "err");
        EXPECT_EQ(rank.device.one.recordings, 4) << "also where the old one was good";
    });
}

TEST(StepGraphRanks, that_may_record_record_at_the_same_step_where_one_has_to) {
    run_on_threads(2, [](Communicator& world) {
        GraphRank rank(world);
        EXPECT_EQ(rank.steps(4), "eeer");
        if (world.rank() == 0) rank.device.one.give_memory_back();
        EXPECT_EQ(rank.steps(2), "rr");
        EXPECT_EQ(rank.device.one.recordings, 4);
    });
}

TEST(StepGraphRanks, none_runs_what_one_could_not_record) {
    run_on_threads(3, [](Communicator& world) {
        GraphRank rank(world);
        if (world.rank() == 2) rank.device.one.problem = "the device says no";
        EXPECT_EQ(rank.steps(6), "eeeeee");
        EXPECT_EQ(rank.runs, 0);
        EXPECT_EQ(rank.forgotten, 1);
        EXPECT_EQ(rank.graph->reason(), "rank 2: the device says no");
    });
}

TEST(StepGraphRanks, none_runs_what_one_is_refused_for_whatever_kind_of_error) {
    run_on_threads(2, [](Communicator& world) {
        GraphRank rank(world);
        if (world.rank() == 1)
            rank.device.one.on_record = [] { throw UsageError("the library wants another shape"); };
        EXPECT_EQ(rank.steps(6), "eeeeee");
        EXPECT_EQ(rank.graph->reason(), "rank 1: the library wants another shape");
    });
}

TEST(StepGraphRanks, a_transfer_that_fails_while_it_is_recorded_ends_the_run_with_its_own_error) {
    run_on_threads(1, [](Communicator& world) {
        for (const bool usage : {true, false}) {
            GraphRank rank(world);
            EXPECT_EQ(rank.steps(3), "eee");
            rank.device.one.on_record = [&] {
                rank.transfers.failed = true;
                if (usage) throw UsageError("NCCL wants one GPU per rank");
                throw RunError("NCCL failed");
            };
            if (usage)
                EXPECT_THROW(rank.step(), UsageError);
            else
                EXPECT_THROW(rank.step(), RunError);
            EXPECT_EQ(rank.graph->reason(), "") << "no other way is taken";
            EXPECT_EQ(rank.forgotten, 0);
        }
    });
}

TEST(StepGraphRanks, a_step_for_which_one_lacks_samples_is_nobodys_recording) {
    run_on_threads(2, [](Communicator& world) {
        GraphRank rank(world);
        EXPECT_EQ(rank.steps(4), "eeer");
        EXPECT_EQ(rank.step(world.rank() == 0), 'e');
        EXPECT_EQ(rank.step(), 'r');
    });
}

TEST(StepGraphRanks, recordings_are_gone_when_transfers_are_ended) {
    run_on_threads(2, [](Communicator& world) {
        GraphRank rank(world);
        rank.steps(5);
        const std::weak_ptr<int> alive = rank.device.one.alive;
        rank.device.one.alive.reset();
        EXPECT_FALSE(alive.expired());
        rank.transfers.peer_is_lost = true;
        EXPECT_THROW(rank.step(), PeerError);
        EXPECT_TRUE(alive.expired());
    });
}

}  // namespace
}  // namespace tutti::test
