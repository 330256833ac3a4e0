#include "tutti/train/failed_step_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "host_values.hpp"
#include "tutti/base/error.hpp"
#include "tutti/input/loader.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/model/loss.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/batch_stage.hpp"
#include "tutti/train/class_weights.hpp"
#include "tutti/train/objective.hpp"
#include "tutti/train/precision.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {
namespace {

std::int64_t count_non_finite(std::span<const double> values, double largest) {
    return std::ranges::count_if(values, [&](double value) { return !(std::abs(value) <= largest); });
}

GraphSpec with_all_outputs(GraphSpec spec) {
    for (NodeId node = 0; node < spec.nodes().size(); ++node) spec.keep(node);
    return spec;
}

void check_same_samples(const Config& then, const Config& now, const FailedStep& failed, const Dataset& train,
                        const std::string& source) {
    const bool same = then.train.batch_size == now.train.batch_size && then.run.seed == now.run.seed &&
                      then.data.shuffle == now.data.shuffle && then.data.drop_last == now.data.drop_last &&
                      then.data.tail == now.data.tail && then.run.deterministic == now.run.deterministic &&
                      then.run.virtual_shards == now.run.virtual_shards;
    if (!same)
        throw UsageError(source +
                             " was recorded with another train.batch_size, run.seed, data.shuffle, "
                             "data.drop_last, data.tail or run.deterministic: other samples would be read",
                         "leave these settings out");
    if (failed.samples != train.info().samples)
        throw DataError(fmt::format("{} was recorded with data of {} samples, but {} has {}", source,
                                    failed.samples, train.name(), train.info().samples),
                        "give the data of the run: data.train=FILE.h5");
}

class Replay {
  public:
    Replay(const Config& config, const FailedStep& failed, Device& device, const Dataset& train)
        : config_(config),
          failed_(failed),
          device_(device),
          train_(train),
          world_(static_cast<int>(failed.ranks.size())),
          together_(config.distributed.sync_batch_norm && world_ > 1),
          batch_(largest_micro_batch(config, world_) * (together_ ? world_ : 1)),
          graph_(with_all_outputs(build_model(config.model, model_input(train.info(), config.data))), device,
                 arithmetic_of(config.train.precision), batch_),
          loss_(
              make_training_loss(device, graph_.compute(), config.train, train.info(),
                                 class_weights(config.train.class_weights, train, graph_.output_shape()[0]))),
          loader_(train, batch_, loader_workers(config.data), static_cast<int>(config.data.prefetch), &device,
                  config.data.on_error),
          stage_(device, train.info(), config.data, graph_.compute(), batch_),
          gradients_(static_cast<std::size_t>(graph_.gradient_arena().count())),
          order_(epoch_order({.samples = train.info().samples,
                              .world_size = world_,
                              .seed = config.run.seed,
                              .epoch = failed.epoch,
                              .shuffle = config.data.shuffle,
                              .drop_last = config.data.drop_last})) {}

    FailedStepReplay run(const Checkpoint& checkpoint, const std::string& source) {
        if (failed_.end > static_cast<std::int64_t>(order_.size()))
            throw DataError(source + ": its failed step lies behind the end of the epoch",
                            "the file is damaged: use another one");
        graph_.load(checkpoint.model, source);
        look_at_parameters();
        report_.ranks.resize(failed_.ranks.size());
        if (together_)
            run_windows({}, windows_of_all());
        else
            for (int rank = 0; rank < world_; ++rank) run_windows(rank, windows_of(rank));
        if (all_losses_are_finite_) look_at_gradients({}, gradients_);
        double squares = 0;
        for (const double value : gradients_) squares += value * value;
        report_.gradient_norm = all_losses_are_finite_ ? std::sqrt(squares) : 0;
        return std::move(report_);
    }

  private:
    void found(NonFinite what) {
        if (!report_.first) report_.first = std::move(what);
    }

    void look_at_parameters() {
        // In the order in which forward uses them.
        const std::vector<double> values = on_host(device_, graph_.parameter_arena());
        for (std::size_t i = graph_.parameters().size(); i-- > 0;)
            look_at(graph_.parameters()[i], NonFinite::Where::parameter, {}, values);
    }

    void look_at_gradients(std::optional<int> rank, std::span<const double> values) {
        const auto where = rank ? NonFinite::Where::gradient : NonFinite::Where::gradient_sum;
        for (const Parameter& parameter : graph_.parameters()) look_at(parameter, where, rank, values);
    }

    void look_at(const Parameter& parameter, NonFinite::Where where, std::optional<int> rank,
                 std::span<const double> arena) {
        const auto values = arena.subspan(static_cast<std::size_t>(parameter.offset),
                                          static_cast<std::size_t>(parameter.count));
        const std::int64_t bad = count_non_finite(values, largest_);
        if (bad > 0) found({where, parameter.name, "", -1, bad, parameter.count, rank});
    }

    std::vector<BatchWindow> windows_of(int rank) const {
        if (config_.run.deterministic)
            return shard_windows({config_.run.virtual_shards, world_, rank}, failed_.begin, failed_.end,
                                 failed_.end - failed_.begin);
        return epoch_windows({.cursor = failed_.begin,
                              .limit = failed_.end,
                              .batch_size = config_.train.batch_size,
                              .world_size = world_,
                              .rank = rank});
    }

    /// The ranks' samples of each micro-batch as one batch: those of all ranks lie next to each other.
    std::vector<BatchWindow> windows_of_all() const {
        return epoch_windows({.cursor = failed_.begin,
                              .limit = failed_.end,
                              .batch_size = config_.train.batch_size * world_,
                              .world_size = 1,
                              .rank = 0});
    }

    /// rank: whose; none: of all.
    void run_windows(std::optional<int> rank, const std::vector<BatchWindow>& windows) {
        stage_.start(loader_, order_, windows, failed_.epoch);
        for (std::size_t i = 0; i < windows.size(); ++i)
            if (const auto batch = stage_.next(loader_); batch && batch->window.count > 0)
                run_batch(rank, *batch);
    }

    int rank_of(std::int64_t position) const { return static_cast<int>(position % world_); }

    LossSums& sums_of(int rank) { return report_.ranks[static_cast<std::size_t>(rank)]; }

    void run_batch(std::optional<int> rank, const HostBatch& batch) {
        const std::int64_t n = batch.window.count;
        StepContext context{Phase::train, config_.run.seed, failed_.epoch, batch.positions};
        context.defers_tracking = config_.run.deterministic;
        stage_.load(batch, graph_.input(n));
        const TensorView logits = graph_.forward(n, context);
        if (!rank)
            for_each_sample(batch, logits, [&](std::size_t i, const LossSums& one) {
                sums_of(rank_of(batch.positions[i])) += one;
            });
        const LossSums sums = loss_->forward(logits, stage_.wanted(), graph_.output_gradient(n));
        if (rank) sums_of(*rank) += sums;
        if (!std::isfinite(sums.loss)) {
            all_losses_are_finite_ = false;
            look_at_outputs(rank, batch);
            for_each_sample(batch, logits, [&](std::size_t i, const LossSums& one) {
                if (!std::isfinite(one.loss))
                    report_.samples.push_back({rank.value_or(rank_of(batch.positions[i])), batch.positions[i],
                                               batch.indices[i], one.loss});
            });
        } else if (all_losses_are_finite_) {
            loss_->backward(stage_.wanted(), 1.0 / weight(), graph_.output_gradient(n));
            graph_.backward(n, context, {});
            const std::vector<double> mine = on_host(device_, graph_.gradient_arena());
            look_at_gradients(rank, mine);
            std::ranges::transform(gradients_, mine, gradients_.begin(), std::plus<>());
        }
    }

    /// The rank whose samples hold all that is not finite; none where several do.
    std::optional<int> rank_with(std::span<const double> values, const HostBatch& batch) const {
        std::optional<int> only;
        const std::size_t size = values.size() / batch.positions.size();
        for (std::size_t i = 0; i < batch.positions.size(); ++i) {
            if (count_non_finite(values.subspan(i * size, size), largest_) == 0) continue;
            const int rank = rank_of(batch.positions[i]);
            if (only && *only != rank) return {};
            only = rank;
        }
        return only;
    }

    void look_at_outputs(std::optional<int> rank, const HostBatch& batch) {
        if (report_.first) return;
        const std::int64_t n = batch.window.count;
        const std::vector<double> input = on_host(device_, graph_.value(0, n));
        if (const std::int64_t bad = count_non_finite(input, largest_); bad > 0)
            found({NonFinite::Where::samples, "", "", -1, bad, static_cast<std::int64_t>(input.size()),
                   rank ? rank : rank_with(input, batch)});
        const auto layers = graph_.report();
        for (std::size_t layer = 0; layer < layers.size() && !report_.first; ++layer) {
            const std::vector<double> output = on_host(device_, graph_.value(layer + 1, n));
            if (const std::int64_t bad = count_non_finite(output, largest_); bad > 0)
                found({NonFinite::Where::output, layers[layer].name, layers[layer].kind,
                       static_cast<std::int64_t>(layer), bad, static_cast<std::int64_t>(output.size()),
                       rank ? rank : rank_with(output, batch)});
        }
        found({NonFinite::Where::loss, "", "", -1, 0, 0, rank});
    }

    /// Each sample's loss by itself. Overwrites what loss_ has left for its backward.
    void for_each_sample(const HostBatch& batch, const TensorView& logits,
                         const std::function<void(std::size_t, const LossSums&)>& use) {
        const TensorView wanted = stage_.wanted(), scratch = graph_.output_gradient(batch.window.count);
        for (std::int64_t i = 0; i < batch.window.count; ++i)
            use(static_cast<std::size_t>(i), loss_->forward(logits.row(i), wanted.row(i), scratch.row(i)));
    }

    /// Of the global batch.
    double weight() const {
        double sum = 0;
        for (const LossSums& rank : failed_.ranks) sum += rank.weight;
        return std::isfinite(sum) && sum > 0 ? sum : static_cast<double>(failed_.end - failed_.begin);
    }

    const Config& config_;
    const FailedStep& failed_;
    Device& device_;
    const Dataset& train_;
    const int world_;
    const bool together_;  ///< batch-norm took the statistics of all ranks' samples
    const std::int64_t batch_;
    Graph graph_;
    std::unique_ptr<Loss> loss_;
    Loader loader_;
    BatchStage stage_;
    std::vector<double> gradients_;  // summed over ranks
    std::vector<std::int64_t> order_;
    // A sum in double may be beyond what the ranks' sum can hold.
    const double largest_ = graph_.compute() == DType::f64
                                ? std::numeric_limits<double>::max()
                                : static_cast<double>(std::numeric_limits<float>::max());
    bool all_losses_are_finite_ = true;
    FailedStepReplay report_;
};

}  // namespace

FailedStepReplay replay_failed_step(const Checkpoint& checkpoint, const FailedStep& failed,
                                    const Config& config, Device& device, const Dataset& train,
                                    const std::string& source) {
    check_same_samples(parse_config(checkpoint.config, source, {}), config, failed, train, source);
    return Replay(config, failed, device, train).run(checkpoint, source);
}

}  // namespace tutti
