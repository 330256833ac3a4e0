// Recorded work of the CUDA device on the fake GPU: what a run takes anew, what cannot be recorded, and what
// the fake itself refuses while it captures.

#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

#include <functional>
#include <numeric>

#include "../test_tensor.hpp"
#include "cuda_device.hpp"
#include "fake_gpu.hpp"
#include "gpu_error.hpp"
#include "segment_updates.hpp"

namespace tutti::test {
namespace {

constexpr std::int64_t samples = 4, width = 8;

class CudaRecorderTest : public testing::Test {
  protected:
    static cuda::CudaDevice made() {
        fake_gpu::reset();
        return cuda::CudaDevice(0);
    }
    TensorView tensor(std::int64_t count, float value) {
        memory_.push_back(device_.allocate(static_cast<std::size_t>(count) * sizeof(float), "a test"));
        const TensorView view = memory_.back().view(0, DType::f32, {count});
        const std::vector<float> host(static_cast<std::size_t>(count), value);
        device_.copy_from_host(view, host.data());
        return view;
    }
    std::vector<float> host(const TensorView& view) {
        std::vector<float> values(static_cast<std::size_t>(view.count()));
        device_.copy_to_host(values.data(), view);
        return values;
    }
    void set(std::int64_t epoch, std::int64_t first, double scale = 1) {
        std::iota(positions_.begin(), positions_.end(), first);
        recorder_.set({epoch, positions_, scale});
    }
    DropoutAddress address(std::int64_t epoch) const { return {7, epoch, positions_, 3}; }
    std::string refusal(const std::function<void()>& issue) {
        try {
            recorder_.record(issue);
        } catch (const RunError& error) {
            return error.what();
        }
        return "nothing was thrown";
    }

    cuda::CudaDevice device_ = made();
    Ops& ops_ = device_.ops(DType::f32);
    WorkRecorder& recorder_ = *device_.recorder();
    std::vector<Buffer> memory_;
    std::vector<std::int64_t> positions_ = std::vector<std::int64_t>(samples);
};

TEST_F(CudaRecorderTest, nothing_is_done_until_a_run_and_then_all_of_it_every_time) {
    const TensorView x = tensor(width, 1), y = tensor(width, 0.5f);
    set(0, 0);
    const auto work = recorder_.record([&] { ops_.add(x, y); });
    EXPECT_EQ(host(y), std::vector<float>(width, 0.5f));
    fake_gpu::clear_record();
    work->run();
    work->run();
    EXPECT_EQ(fake_gpu::record()[0], "stream 1: launch a graph of 1 operations");
    EXPECT_EQ(fake_gpu::record().size(), 4u) << "each graph and its kernel";
    EXPECT_EQ(host(y), std::vector<float>(width, 2.5f));
}

TEST_F(CudaRecorderTest, random_numbers_are_drawn_for_the_samples_of_each_run) {
    const TensorView x = tensor(samples * width, 1).reshaped({samples, width});
    const TensorView y = tensor(samples * width, 0).reshaped({samples, width});
    const TensorView keep_memory = tensor(samples * width, 0);
    const TensorView keep{keep_memory.data, DType::u8, {samples, width}};
    const std::function<void(std::int64_t)> both[] = {
        [&](std::int64_t epoch) { ops_.dropout_forward(address(epoch), 0.5, x, y, keep); },
        [&](std::int64_t epoch) { ops_.drop_path(address(epoch), 0.5, x, y); }};
    for (const auto& draw : both) {
        set(1, 100);
        const auto work = recorder_.record([&] { draw(1); });
        std::vector<std::vector<float>> drawn;
        for (const auto& [epoch, first] : {std::pair{1, 100}, {2, 100}, {1, 104}}) {
            set(epoch, first);
            work->run();
            drawn.push_back(host(y));
            draw(epoch);
            EXPECT_EQ(drawn.back(), host(y)) << "epoch " << epoch << ", position " << first;
        }
        EXPECT_NE(drawn[0], drawn[1]);
        EXPECT_NE(drawn[0], drawn[2]);
    }
}

TEST_F(CudaRecorderTest, masks_are_drawn_for_the_samples_of_each_run) {
    constexpr TubeMask mask{16, 2, 11};
    memory_.push_back(device_.allocate(samples * 32 * sizeof(std::int64_t), "an order"));
    const TensorView order = memory_.back().view(0, DType::i64, {samples, 32});
    const auto fetched = [&] {
        std::vector<std::int64_t> values(samples * 32);
        device_.copy_to_host(values.data(), order);
        return values;
    };
    set(1, 100);
    const auto work = recorder_.record([&] { ops_.mask_tokens(address(1), mask, order); });
    std::vector<std::vector<std::int64_t>> drawn;
    for (const auto& [epoch, first] : {std::pair{1, 100}, {2, 100}, {1, 104}}) {
        set(epoch, first);
        work->run();
        drawn.push_back(fetched());
        ops_.mask_tokens(address(epoch), mask, order);
        EXPECT_EQ(drawn.back(), fetched()) << "epoch " << epoch << ", position " << first;
    }
    EXPECT_NE(drawn[0], drawn[1]);
    EXPECT_NE(drawn[0], drawn[2]);
}

/// No number from the host in any other of them.
TEST_F(CudaRecorderTest, masked_pre_training_can_be_recorded) {
    constexpr TubeMask mask{4, 1, 2};
    set(0, 0);
    memory_.push_back(device_.allocate(samples * 4 * sizeof(std::int64_t), "an order"));
    const TensorView order = memory_.back().view(0, DType::i64, {samples, 4});
    const auto tokens = [&](std::int64_t count, float value) {
        return tensor(samples * count * width, value).reshaped({samples, count, width});
    };
    const TensorView patches = tokens(4, 3), seen = tokens(2, 0), all = tokens(4, 0), last = tokens(2, 0);
    const TensorView token = tensor(width, 5), positions = tensor(4 * width, 0.5f).reshaped({4, width});
    const TensorView epsilon = tensor(2, 1), dtoken = tensor(width, 0);
    const auto issue = [&] {
        ops_.mask_tokens(address(0), mask, order);
        ops_.take_tokens(patches, order, seen);
        ops_.fill_tokens_forward(seen, token, positions, order, all);
        ops_.last_tokens_forward(all, last);
        ops_.patch_differences(last, patches, order, epsilon, last);
        ops_.last_tokens_backward(last, all);
        ops_.fill_tokens_backward(all, seen, dtoken, 2);
    };
    issue();  // scratch is there
    ops_.fill(dtoken, 0);
    const auto work = recorder_.record(issue);
    EXPECT_EQ(host(dtoken), std::vector<float>(width, 0));
    work->run();
    // Patches without contrast are zeros: 5.5 of each of two hidden tokens of each sample.
    EXPECT_EQ(host(dtoken), std::vector<float>(width, 2 * samples * 5.5f));
    EXPECT_EQ(host(seen), std::vector<float>(samples * 2 * width, 0));
}

TEST_F(CudaRecorderTest, the_loss_has_the_scale_of_each_run) {
    const TensorView probabilities = tensor(samples * width, 0.125f).reshaped({samples, width});
    const TensorView gradient = tensor(samples * width, 0).reshaped({samples, width});
    memory_.push_back(device_.allocate(samples * sizeof(std::int64_t), "labels"));
    const TensorView labels = memory_.back().view(0, DType::i64, {samples});
    set(0, 0, 0.25);
    const auto work =
        recorder_.record([&] { ops_.softmax_cross_entropy_backward(probabilities, labels, 0.25, gradient); });
    for (const double scale : {0.25, 0.5}) {
        set(0, 0, scale);
        work->run();
        EXPECT_EQ(host(gradient)[1], static_cast<float>(scale * 0.125));
    }
}

TEST_F(CudaRecorderTest, so_has_the_loss_of_a_regression) {
    const TensorView differences = tensor(samples * width, 0.125f).reshaped({samples, width});
    const TensorView gradient = tensor(samples * width, 0).reshaped({samples, width});
    set(0, 0, 0.25);
    const auto work = recorder_.record(
        [&] { ops_.regression_loss_backward(differences, RegressionLoss::huber, 0.25, gradient); });
    for (const double scale : {0.25, 0.5}) {
        set(0, 0, scale);
        work->run();
        EXPECT_EQ(host(gradient)[1], static_cast<float>(scale / width * 0.125));
    }
}

TEST_F(CudaRecorderTest, so_has_the_loss_of_segments) {
    const TensorView gradients = tensor(samples * width, 0.125f), scaled = tensor(samples * width, 0);
    set(0, 0, 0.25);
    const auto work = recorder_.record([&] { ops_.segment_loss_backward(gradients, 0.25, scaled); });
    for (const double scale : {0.25, 0.5}) {
        set(0, 0, scale);
        work->run();
        EXPECT_EQ(host(scaled)[1], static_cast<float>(scale * 0.125));
    }
}

/// What exists is counted anew in each run.
TEST_F(CudaRecorderTest, attention_with_padding_and_the_loss_of_segments_can_be_recorded) {
    set(0, 0);
    const AttentionShape shape{2, 1, 4};
    const TensorView qkv = tensor(samples * 2 * 12, 0.5f).reshaped({samples, 2, 3, 1, 4});
    const TensorView dqkv = tensor(samples * 2 * 12, 9).reshaped({samples, 2, 3, 1, 4});
    const TensorView all = tensor(samples * 8, 0).reshaped({samples, 2, 4});
    const TensorView out = tensor(samples * 8, 0).reshaped({samples, 2, 4});
    const TensorView mask = tensor(samples * 2, 1).reshaped({samples, 2});
    const TensorView wanted = tensor(samples * 4, 1);
    memory_.push_back(device_.allocate(3 * sizeof(double), "sums"));
    const TensorView sums = memory_.back().view(0, DType::f64, {3});
    const auto issue = [&] {
        ops_.attention_forward(shape, qkv, out, {}, mask);
        ops_.copy_columns(out, {.count = 4}, all);
        ops_.segment_loss_forward(all, wanted, {}, all, sums);
        ops_.attention_backward(shape, qkv, out, {}, out, dqkv, mask);
    };
    issue();  // scratch is there
    const auto work = recorder_.record(issue);
    std::vector<float> exists(samples * 2, 1);
    for (const float second : {1.0f, 0.0f}) {
        exists[1] = second;
        device_.copy_from_host(mask, exists.data());
        work->run();
        EXPECT_EQ(host(out)[3], 0.5f);
        EXPECT_EQ(host(out)[4], 0.5f * second);
        EXPECT_EQ(host(dqkv)[12 + 8] != 0, second != 0) << "v of the second token";
        double total[3];
        device_.copy_to_host(total, sums);
        EXPECT_EQ(total[2], samples) << "0.5 says inside, and all are";
    }
}

TEST_F(CudaRecorderTest, numbers_that_a_run_could_not_set_are_refused) {
    const TensorView x = tensor(width, 1), y = tensor(width, 1), z = tensor(width, 1), u = tensor(width, 1);
    set(0, 0);
    const std::vector<double> factors(width, 1.0);
    const std::function<void()> works[] = {
        [&] { ops_.sgd({.lr = 0.1}, x, y, {}); },
        [&] { ops_.adam({.lr = 0.1}, x, y, z, u); },
        [&] { ops_.adadelta({}, x, y, z, u); },
        [&] { ops_.lamb_direction({}, x, y, z, u, x); },
        [&] { ops_.scale(0.5, x); },
        [&] { ops_.lerp(0.5, x, y); },
        [&] {
            ops_.scale_samples(x.reshaped({width, 1}), factors, y.reshaped({width, 1}));
        },
        [&] {
            ops_.drop_path(address(1), 0.5, x.reshaped({samples, 2}), y.reshaped({samples, 2}));
        },
        [&] {
            ops_.mask_tokens(address(1), {1, 1, 0}, {y.data, DType::i64, {samples, 1}});
        },
    };
    for (const auto& work : works)
        EXPECT_NE(refusal(work).find("takes numbers from the host"), std::string::npos) << refusal(work);
    EXPECT_EQ(host(y), std::vector<float>(width, 1));
    ops_.sgd({.lr = 0.5}, x, y, {});  // the stream is free again
    EXPECT_EQ(host(y), std::vector<float>(width, 0.5f));
}

TEST_F(CudaRecorderTest, waiting_allocating_and_copying_break_a_recording) {
    const TensorView x = tensor(width, 1), y = tensor(width, 1);
    set(0, 0);
    std::vector<float> values(width);
    const std::function<void()> works[] = {[&] { device_.copy_to_host(values.data(), x); },
                                           [&] { device_.copy_from_host(x, values.data()); },
                                           [&] { device_.allocate(64, "a test"); }};
    for (const auto& work : works) {
        EXPECT_NE(refusal([&] {
                      ops_.add(x, y);
                      work();
                  }).find("cudaErrorStreamCaptureUnsupported"),
                  std::string::npos)
            << refusal(work);
        // An error that nobody looks at breaks the graph all the same.
        EXPECT_NE(refusal([&] {
                      try {
                          work();
                      } catch (const cuda::GpuError&) {
                      }
                  }).find("cudaErrorStreamCaptureInvalidated"),
                  std::string::npos);
    }
    const auto graph = recorder_.record([&] { ops_.add(x, y); });
    graph->run();
    EXPECT_EQ(host(y), std::vector<float>(width, 2));
}

TEST_F(CudaRecorderTest, a_recording_that_failed_leaves_no_error_to_who_asks_next) {
    const TensorView x = tensor(width, 1), y = tensor(width, 1);
    set(0, 0);
    const cuda::OwnedStream side(cuda::StreamPriority::high);
    cuda::Event fork;
    const auto unjoined = [&] {
        fork.record(device_.compute_stream());
        side.wait(fork);
        cudaMemcpyAsync(y.data, x.data, x.bytes(), cudaMemcpyDeviceToDevice, side.get());
    };
    EXPECT_NE(refusal(unjoined).find("cudaErrorStreamCaptureUnjoined"), std::string::npos);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_NE(refusal([&] { fork.synchronize(); }).find("CUDA"), std::string::npos);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    fake_gpu::fail_next("cudaGraphInstantiate", cudaErrorMemoryAllocation);
    EXPECT_NE(refusal([&] { ops_.add(x, y); }).find("cudaErrorMemoryAllocation"), std::string::npos);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CudaRecorderTest, work_whose_memory_was_given_back_is_not_current) {
    const TensorView x = tensor(1000, 1), sum_memory = tensor(2, 0);
    const TensorView sum{sum_memory.data, DType::f64, {1}};
    const auto squares = [&] { ops_.sum_of_squares(x, sum); };
    squares();
    set(0, 0);
    const auto work = recorder_.record(squares);
    EXPECT_TRUE(work->current());
    const TensorView large = tensor(4'000'000, 0);
    ops_.sum_of_squares(large, sum);  // scratch grows
    EXPECT_FALSE(work->current());
    const auto again = recorder_.record(squares);
    positions_.resize(2 * samples);
    EXPECT_TRUE(again->current());
    set(0, 0);  // values of more samples
    EXPECT_FALSE(again->current());
}

TEST_F(CudaRecorderTest, a_side_stream_is_part_of_it_when_it_is_joined) {
    const cuda::OwnedStream side(cuda::StreamPriority::high);
    const TensorView x = tensor(width, 3), y = tensor(width, 0);
    cuda::Event fork, join;
    const auto issue = [&](bool joins) {
        fork.record(device_.compute_stream());
        cudaStreamWaitEvent(side.get(), fork.get(), 0);
        cudaMemcpyAsync(y.data, x.data, x.bytes(), cudaMemcpyDeviceToDevice, side.get());
        join.record(side.get());
        if (joins) cudaStreamWaitEvent(device_.compute_stream(), join.get(), 0);
    };
    set(0, 0);
    EXPECT_NE(refusal([&] { issue(false); }).find("cudaErrorStreamCaptureUnjoined"), std::string::npos);
    const auto work = recorder_.record([&] { issue(true); });
    EXPECT_EQ(host(y), std::vector<float>(width, 0));
    work->run();
    EXPECT_EQ(host(y), std::vector<float>(width, 3));
    EXPECT_NE(refusal([&] {
                  issue(true);
                  (void)join.reached();
              }).find("CUDA"),
              std::string::npos)
        << "nobody can ask for a place in a graph";
}

TEST_F(CudaRecorderTest, no_event_may_be_asked_for_meanwhile_and_no_stream_waited_for) {
    const cuda::OwnedStream other(cuda::StreamPriority::high);
    cuda::Event before;
    before.record(other.get());
    set(0, 0);
    const std::function<void()> works[] = {[&] { (void)before.reached(); }, [&] { before.synchronize(); },
                                           [&] { other.synchronize(); }};
    for (const auto& work : works)
        EXPECT_NE(refusal(work).find("cudaErrorStreamCaptureUnsupported"), std::string::npos)
            << refusal(work);
}

TEST_F(CudaRecorderTest, the_legacy_stream_must_not_be_used_meanwhile) {
    const TensorView x = tensor(width, 3);
    set(0, 0);
    EXPECT_NE(refusal([&] { cudaMemset(x.data, 0, x.bytes()); }).find("cudaErrorStreamCaptureInvalidated"),
              std::string::npos);
    EXPECT_EQ(host(x), std::vector<float>(width, 3));
}

TEST_F(CudaRecorderTest, what_is_fetched_comes_without_waiting_for_what_is_issued_behind_it) {
    const TensorView x = tensor(width, 3);
    fake_gpu::clear_record();
    recorder_.fetch(x);
    ops_.fill(x, 0);
    EXPECT_TRUE(recorder_.fetched());
    EXPECT_EQ(reinterpret_cast<const float*>(recorder_.result())[width - 1], 3);
    for (const std::string& line : fake_gpu::record()) EXPECT_EQ(line.find("host: wait"), std::string::npos);
}

/// What would happen if a number were passed by value after all: the fake shows it.
TEST_F(CudaRecorderTest, the_fake_runs_kernels_with_the_numbers_of_the_recording) {
    const TensorView gradient = tensor(width, 1), weight = tensor(width, 0);
    double lr = 1;
    set(0, 0);
    const auto work =
        recorder_.record([&] { cuda::sgd({.lr = lr}, gradient, weight, {}, device_.compute_stream()); });
    work->run();
    lr = 0.5;
    work->run();
    EXPECT_EQ(host(weight), std::vector<float>(width, -2)) << "not -1.5";
}

}  // namespace
}  // namespace tutti::test
