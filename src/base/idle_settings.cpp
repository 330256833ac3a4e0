#include "tutti/base/idle_settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tutti/base/config.hpp"

namespace tutti {
namespace {

/// Those of a group that differ from the default.
class Group {
  public:
    template <class T>
    Group& add(const char* key, const T& value, const T& usual) {
        if (!(value == usual)) keys_.emplace_back(key);
        return *this;
    }
    void tell(bool idle, const std::string& cause, std::vector<std::string>& warnings) const {
        if (idle && !keys_.empty())
            warnings.push_back(fmt::format("{} {} no effect {}", fmt::join(keys_, ", "),
                                           keys_.size() == 1 ? "has" : "have", cause));
    }

  private:
    std::vector<std::string> keys_;
};

/// The first epoch after which early stopping may end the run: the first evaluation is an improvement on
/// none, unless its metric is no number. Beyond train.epochs where it cannot, or where evaluations follow
/// steps, of which an epoch has nobody knows how many.
std::int64_t earliest_stop(const Config& config) {
    const auto& stopping = config.train.early_stopping;
    const Interval& eval = config.train.eval_every;
    if (!stopping || eval.count == 0 || eval.unit != Interval::Unit::epochs) return config.train.epochs + 1;
    const auto every = static_cast<std::int64_t>(eval.count);
    return stopping->patience < config.train.epochs / every ? (stopping->patience + 1) * every
                                                            : config.train.epochs + 1;
}

}  // namespace

std::vector<std::string> idle_settings(const Config& config) {
    const Config usual;
    std::vector<std::string> warnings;
    Group()
        .add("schedule.warmup", config.schedule.warmup, usual.schedule.warmup)
        .add("schedule.warmup_lr", config.schedule.warmup_lr, usual.schedule.warmup_lr)
        .add("schedule.warmup_power", config.schedule.warmup_power, usual.schedule.warmup_power)
        .tell(config.schedule.warmup_epochs == 0, "without schedule.warmup_epochs", warnings);
    Group()
        .add("schedule.warmup_power", config.schedule.warmup_power, usual.schedule.warmup_power)
        .tell(config.schedule.warmup_epochs > 0 && config.schedule.warmup != WarmUp::power,
              "without schedule.warmup: power", warnings);
    Group()
        .add("optim.dampening", config.optim.dampening, usual.optim.dampening)
        .tell(config.optim.momentum == 0, "without optim.momentum", warnings);
    Group()
        .add("model.init_except", config.model.init_except, usual.model.init_except)
        .tell(config.model.init_from.empty(), "without model.init_from", warnings);
    Group()
        .add("train.heatmap_sigma", config.train.heatmap_sigma, usual.train.heatmap_sigma)
        .add("train.heatmap_weight", config.train.heatmap_weight, usual.train.heatmap_weight)
        .add("train.presence_weight", config.train.presence_weight, usual.train.presence_weight)
        .add("train.soft_argmax", config.train.soft_argmax, usual.train.soft_argmax)
        .add("train.presence_score", config.train.presence_score, usual.train.presence_score)
        .add("train.presence_threshold", config.train.presence_threshold, usual.train.presence_threshold)
        .tell(config.train.loss != LossChoice::location, "without model.name: locator", warnings);
    Group()
        .add("train.focal_alpha", config.train.focal_alpha, usual.train.focal_alpha)
        .add("train.focal_gamma", config.train.focal_gamma, usual.train.focal_gamma)
        .add("train.focal_weight", config.train.focal_weight, usual.train.focal_weight)
        .add("train.offset_weight", config.train.offset_weight, usual.train.offset_weight)
        .add("train.segments", config.train.segments, usual.train.segments)
        .tell(config.train.loss != LossChoice::segments, "without model.name: temporal_transformer",
              warnings);
    Group()
        .add("model.text_depth", config.model.text_depth, usual.model.text_depth)
        .add("model.cross_depth", config.model.cross_depth, usual.model.cross_depth)
        .tell(config.model.name == "temporal_transformer" && config.model.fusion != "cross",
              "without model.fusion: cross", warnings);
    Group()
        .add("data.tail", config.data.tail, usual.data.tail)
        .tell(config.data.drop_last, "with data.drop_last", warnings);
    Group()
        .add("train.confusion", config.train.confusion, usual.train.confusion)
        .add("train.topk", config.train.topk, usual.train.topk)
        .add("train.eval_every", config.train.eval_every, usual.train.eval_every)
        .tell(config.data.val.empty(), "without data.val", warnings);
    const CheckpointConfig& checkpoint = config.train.checkpoint;
    Group()
        .add("train.checkpoint.best_from", checkpoint.best_from, usual.train.checkpoint.best_from)
        .tell(checkpoint.best.empty(), "without train.checkpoint.best", warnings);
    Group()
        .add("train.checkpoint.best", checkpoint.best, usual.train.checkpoint.best)
        .tell(checkpoint.best_from > config.train.epochs,
              fmt::format("as train.checkpoint.best_from is {} and train.epochs {}", checkpoint.best_from,
                          config.train.epochs),
              warnings);
    if (const std::int64_t end = earliest_stop(config);
        !checkpoint.best.empty() && end < checkpoint.best_from && checkpoint.best_from <= config.train.epochs)
        warnings.push_back(
            fmt::format("train.early_stopping may end the run after epoch {}, before "
                        "train.checkpoint.best_from, {}: then no "
                        "checkpoint is kept as the best",
                        end, checkpoint.best_from));
    Group()
        .add("run.trace_steps", config.run.trace_steps, usual.run.trace_steps)
        .tell(!config.run.trace, "without run.trace", warnings);
    Group()
        .add("run.virtual_shards", config.run.virtual_shards, usual.run.virtual_shards)
        .tell(!config.run.deterministic, "without run.deterministic", warnings);
    return warnings;
}

}  // namespace tutti
