#include "tutti/train/evaluation.hpp"

#include <fmt/format.h>

#include <array>
#include <numeric>

namespace tutti {

LossSums evaluate(const EvaluationJob& job) {
    const std::int64_t samples = job.dataset.info().samples;
    std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    job.loader.start(std::move(order), epoch_windows({.cursor = 0,
                                                      .limit = samples,
                                                      .batch_size = job.batch_size,
                                                      .world_size = job.communicator.size(),
                                                      .rank = job.communicator.rank()}));

    StepContext step{Phase::evaluate, job.seed, 0, {}};
    LossSums mine;
    Failure failure;
    try {
        while (const auto batch = job.loader.next()) {
            const std::int64_t n = batch->window.count;
            if (n == 0) continue;
            step.positions = batch->positions;
            job.stage.load(*batch, job.graph.input(n));
            const TensorView logits = job.graph.forward(n, step);
            mine += job.loss.forward(logits, job.stage.labels(), job.graph.output_gradient(n));
        }
    } catch (const Error& error) {
        failure = {error.code(), error.what()};
    }

    std::array<double, 4> sums{mine.loss, mine.weight, static_cast<double>(mine.correct),
                               failure.code == ExitCode::done ? 0.0 : 1.0};
    job.communicator.all_reduce(view_of(std::span(sums)), ReduceOp::sum).wait();
    if (sums[3] > 0) agree(job.communicator, failure, "evaluation");
    return {sums[0], sums[1], static_cast<std::int64_t>(sums[2])};
}

std::string accuracy_text(const LossSums& sums) {
    const double accuracy = sums.weight > 0 ? static_cast<double>(sums.correct) / sums.weight : 0.0;
    return fmt::format("{:.4f} ({} of {:.0f})", accuracy, sums.correct, sums.weight);
}

}  // namespace tutti
