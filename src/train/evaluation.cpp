#include "tutti/train/evaluation.hpp"

#include <fmt/format.h>

#include <numeric>

#include "tutti/comm/butterfly.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {
namespace {

double part(std::int64_t count, double of) {
    return of > 0 ? static_cast<double>(count) / of : 0.0;
}

/// The counts of one rank, in the order in which they are summed over all: doubles, so that one all-reduce
/// carries the loss, too.
class EvaluationSums {
  public:
    /// parts: of this rank, 2^k, whose losses are summed each by itself, and then along a tree.
    EvaluationSums(std::size_t classes, bool confusion, std::size_t parts)
        : classes_(classes),
          values_(header + 2 * classes + (confusion ? classes * classes : 0)),
          losses_(parts) {}

    void add(const LossSums& sums, std::size_t part) {
        losses_[part] += sums.loss;
        values_[1] += sums.weight;
        values_[2] += static_cast<double>(sums.correct);
    }
    void add(std::int64_t label, std::int64_t predicted, std::int64_t place, std::int64_t topk) {
        const auto row = static_cast<std::size_t>(label), column = static_cast<std::size_t>(predicted);
        values_[4] += place < topk ? 1 : 0;
        values_[header + row] += 1;
        values_[header + classes_ + row] += label == predicted ? 1 : 0;
        const std::size_t matrix = header + 2 * classes_;
        if (values_.size() > matrix) values_[matrix + row * classes_ + column] += 1;
    }

    void add_skipped(std::int64_t samples) { values_[5] += static_cast<double>(samples); }

    /// True when a rank failed.
    bool all_reduce(Communicator& communicator, bool failed, bool along_tree) {
        values_[0] = sum_of_neighbours(losses_);
        values_[3] = failed ? 1 : 0;
        if (along_tree)
            butterfly_sum(communicator, view_of(std::span(values_)));
        else
            communicator.all_reduce(view_of(std::span(values_)), ReduceOp::sum).wait();
        return values_[3] > 0;
    }

    EvaluationResult result(std::int64_t topk) const {
        EvaluationResult result;
        result.loss = values_[0];
        result.weight = values_[1];
        result.correct = static_cast<std::int64_t>(values_[2]);
        result.unreadable = static_cast<std::int64_t>(values_[5]);
        result.topk = topk;
        result.in_topk = static_cast<std::int64_t>(values_[4]);
        result.of_label = counts(header, classes_);
        result.hit_of_label = counts(header + classes_, classes_);
        const std::size_t matrix = header + 2 * classes_;
        result.confusion = counts(matrix, values_.size() - matrix);
        return result;
    }

  private:
    static constexpr std::size_t header = 6;  // loss, weight, correct, failed, in top-k, skipped

    std::vector<std::int64_t> counts(std::size_t begin, std::size_t count) const {
        std::vector<std::int64_t> result(count);
        for (std::size_t i = 0; i < count; ++i) result[i] = static_cast<std::int64_t>(values_[begin + i]);
        return result;
    }

    std::size_t classes_;
    std::vector<double> values_;
    std::vector<double> losses_;
};

/// With how many windows of this rank belong together: one per part of EvaluationSums.
std::pair<std::vector<BatchWindow>, std::size_t> windows_of(const EvaluationJob& job) {
    const std::int64_t samples = job.dataset.info().samples;
    const int world = job.communicator.size(), rank = job.communicator.rank();
    if (job.virtual_shards > 0) {
        const ShardLayout layout{job.virtual_shards, world, rank};
        return {shard_windows(layout, 0, samples, job.batch_size * layout.shards),
                static_cast<std::size_t>(layout.per_rank())};
    }
    return {
        epoch_windows(
            {.cursor = 0, .limit = samples, .batch_size = job.batch_size, .world_size = world, .rank = rank}),
        1};
}

}  // namespace

std::int64_t topk_of(const TrainConfig& config, std::int64_t classes) {
    constexpr std::int64_t classes_worth_top5 = 10;
    if (config.topk) return *config.topk;
    const auto& early = config.early_stopping;
    const bool asked = config.checkpoint.best == "val/top5" || (early && early->metric == "val/top5");
    return asked || classes >= classes_worth_top5 ? 5 : 0;
}

double EvaluationResult::mean_loss() const {
    return weight > 0 ? loss / weight : 0.0;
}
double EvaluationResult::accuracy() const {
    return part(correct, weight);
}
double EvaluationResult::topk_accuracy() const {
    return part(in_topk, weight);
}

double EvaluationResult::balanced_accuracy() const {
    double recalls = 0;
    std::int64_t present = 0;
    for (std::size_t label = 0; label < of_label.size(); ++label) {
        if (of_label[label] == 0) continue;
        recalls += part(hit_of_label[label], static_cast<double>(of_label[label]));
        ++present;
    }
    return present > 0 ? recalls / static_cast<double>(present) : 0.0;
}

double EvaluationResult::metric(const std::string& name) const {
    if (name == "val/loss") return mean_loss();
    if (name == "val/top5") return topk_accuracy();
    if (name == "val/balanced_accuracy") return balanced_accuracy();
    return accuracy();
}

bool improves(const std::string& name, double value, double best, double min_delta) {
    return name == "val/loss" ? best - value > min_delta : value - best > min_delta;
}

EvaluationResult evaluate(const EvaluationJob& job) {
    const std::int64_t samples = job.dataset.info().samples;
    std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    auto [windows, parts] = windows_of(job);
    job.stage.start(job.loader, std::move(order), std::move(windows));

    StepContext step{Phase::evaluate, job.seed, 0, {}};
    EvaluationSums sums(static_cast<std::size_t>(job.graph.output_shape().count()), job.confusion, parts);
    Failure failure;
    try {
        for (std::size_t window = 0; const auto batch = job.stage.next(job.loader); ++window) {
            const std::int64_t n = batch->window.count;
            if (job.skipped) job.skipped->add(batch->skipped);
            if (n == 0) continue;
            step.positions = batch->positions;
            job.stage.load(*batch, job.graph.input(n));
            const TensorView logits = job.graph.forward(n, step);
            job.stage.fetch_ahead(job.loader);
            // Before the loss, whose workspace may be the logits' own memory.
            const LabelRanks ranks = job.stage.rank_labels(logits);
            for (std::size_t i = 0; i < batch->labels.size(); ++i)
                sums.add(batch->labels[i], ranks.predicted[i], ranks.place[i], job.topk);
            sums.add(job.loss.forward(logits, job.stage.labels(), job.graph.output_gradient(n)),
                     window % parts);
        }
    } catch (const Error& error) {
        failure = reading_failure(error);
    }

    if (job.skipped) sums.add_skipped(job.skipped->take_count());
    if (sums.all_reduce(job.communicator, failure.code != ExitCode::done, job.virtual_shards > 0))
        agree(job.communicator, failure, "evaluation");
    EvaluationResult result = sums.result(job.topk);
    if (result.unreadable > 0) {
        job.skipped->tell(job.communicator, *job.log);
        SkippedSamples::check_share(result.unreadable, samples, job.dataset.name());
    }
    return result;
}

std::string accuracy_text(const LossSums& sums) {
    return fmt::format("{:.4f} ({} of {:.0f})", part(sums.correct, sums.weight), sums.correct, sums.weight);
}

}  // namespace tutti
