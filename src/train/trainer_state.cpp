// The state of a run on its way to and from files, and from rank 0 to the others.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <type_traits>

#include "resume_changes.hpp"
#include "trainer_impl.hpp"
#include "tutti/base/json_input.hpp"
#include "tutti/base/program_time.hpp"
#include "tutti/base/shell_word.hpp"
#include "tutti/train/training_data.hpp"
#include "tutti/train/weights_file.hpp"

namespace tutti {
namespace {

template <class T>
bool all_finite(std::span<const T> values) {
    for (const T value : values)
        if (!std::isfinite(value)) return false;
    return true;
}

bool all_finite(const NamedTensor& tensor) {
    const auto count = static_cast<std::size_t>(tensor.shape.count());
    if (tensor.dtype == DType::f32)
        return all_finite(std::span(reinterpret_cast<const float*>(tensor.bytes.data()), count));
    if (tensor.dtype == DType::f64)
        return all_finite(std::span(reinterpret_cast<const double*>(tensor.bytes.data()), count));
    return true;
}

/// The file would be of no use, and might take the place of one that is.
void check_finite(std::span<const NamedTensor> tensors, const std::string& part, std::int64_t step) {
    for (const NamedTensor& tensor : tensors)
        if (!all_finite(tensor))
            throw RunError("step " + std::to_string(step) + ": " + part + tensor.name +
                               " holds values that are not finite; no checkpoint was written",
                           "lower optim.lr or check the data; checkpoints before this one are good");
}

/// Where the checkpoint does not fit because the model was made for images of another size, says so.
void load_model(Graph& graph, const Checkpoint& checkpoint, const std::string& path, const Config& before,
                const Config& now) {
    try {
        graph.load(checkpoint.model, path);
    } catch (const DataError&) {
        for (const std::string& line : course_differences(before, now))
            if (line.starts_with("data.transforms:"))
                throw UsageError(path + " was trained with other settings (" + line +
                                     "), and the model for images of this size does not take its weights",
                                 "restore them, or start anew with run.resume=never or another run.dir");
        throw;
    }
}

/// Of an "eval" row (JSON); −1 of none, and of what is none.
std::int64_t step_of_eval(const std::string& row) {
    const auto read = json_or_discarded<nlohmann::json>(row);
    return read.is_object() && read.contains("step") && read["step"].is_number_integer()
               ? read["step"].get<std::int64_t>()
               : -1;
}

/// What `resume: auto` found in the run's directory was nobody's choice: where it cannot be read, says how to
/// do without.
Checkpoint load_to_resume(const std::string& path, const Config& config) {
    try {
        Checkpoint checkpoint = load_checkpoint(path);
        if (!checkpoint.failed_step.empty())
            throw DataError(
                path + " holds a step that failed, not a state to go on from",
                "name one of RUN_DIR/checkpoints; trainer replay " + shell_word(path) + " shows what failed");
        return checkpoint;
    } catch (const DataError& error) {
        if (config.run.resume != "auto") throw;
        throw DataError(std::string(error.what()) +
                        "; run.resume=FILE goes on from another one, run.resume=never starts anew and moves "
                        "what was written to " +
                        config.run.dir + "/old-1/, old-2/, …");
    }
}

}  // namespace

void Trainer::Impl::restore(const std::string& path) {
    Checkpoint checkpoint;  // of rank 0
    together_on_first_rank(job.control, "resuming", [&] {
        checkpoint = load_to_resume(path, config);
        const Config before = parse_config(checkpoint.config, path, {});
        const auto trained_on = training_data_from_json(checkpoint.training_data, path);
        refuse_other_training(before, config, path, trained_on.value_or(job.train.info()).classes);
        load_model(graph, checkpoint, path, before, config);
        if (recorded.model.init_from.empty()) {  // which is not used, and does not change what it began with
            recorded.model.init_from = before.model.init_from;
            recorded.model.init_except = before.model.init_except;
        }
        if (!training.shards)
            for (const Optimizer::State& state : training.optimizer->state())
                graph.load_arena(state.arena, checkpoint.optimizer, state.name + "/", path);
        if (average && checkpoint.ema.empty()) average->restart();
        if (average && !checkpoint.ema.empty()) graph.load_arena(average->arena(), checkpoint.ema, "", path);
        progress = checkpoint.progress;
        const SameData same = compare_data(checkpoint.data_fingerprint, data_sign);
        last_eval = checkpoint.last_eval;
        resumed_is_evaluated = step_of_eval(last_eval) == progress.step;
        bucket_plan = checkpoint.bucket_plan;
        resumed_changes = fmt::format(
            "{}",
            fmt::join(course_changes(before, static_cast<int>(progress.world_size), config, world, same),
                      ", "));
        left_over.keep = progress.skipped > 0 ? 0 : before.train.checkpoint.keep;
        if (progress.has_best) left_over.best = progress.best_step;
        // Which may be what early stopping counts.
        forget_other_metrics(before, normalisation_from(checkpoint.normalisation, path));
        if (finished()) refuse_untrained_data(before, config, same, path, to_go_on());
    });
    if (training.shards) scatter_optimizer_state(checkpoint, path);
    broadcast_state();
    last_save_samples = progress.samples;
    last_eval_step = step_of_eval(last_eval);
    resumed_from = path;
    resumed_step = progress.step;
}

void Trainer::Impl::go_on_in_directory() {
    together_on_first_rank(job.control, "resuming", [&] {
        // What lies beside a file from elsewhere is of another course: a requeued job must not take the
        // latest.
        const auto here = [](const std::string& path) { return std::filesystem::path(path).parent_path(); };
        std::error_code none;
        const bool own = std::filesystem::equivalent(
            here(resumed_from), here(job.directory->checkpoint_path(progress.step)), none);
        if (own)
            job.directory->set_aside_checkpoints_after(progress.step);
        else
            job.directory->set_aside_course();
        job.directory->cut_metrics({progress.step, progress.epoch, resumed_is_evaluated});
    });
    note_what_is_there();
    if (rank == 0 && !resumed_changes.empty())
        job.log.warning(
            (has_nothing_left()
                 ? "the run is finished: settings other than it was trained with are not used ("
             : finished() ? "the run is trained to its end: other settings "
                            "than it was trained with are in config.yaml from now on, but did not train it ("
                          : "going on with other settings than before (") +
            resumed_changes + ")");
    job.log.info("resuming " + resumed_from + " at step " + std::to_string(progress.step) +
                 (finished() ? ", the last one" : ", epoch " + std::to_string(progress.epoch + 1)));
}

void Trainer::Impl::prune_left_over() {
    together_on_first_rank(job.control, "removing older checkpoints",
                           [&] { job.directory->prune_checkpoints(left_over.keep, left_over.best); });
}

bool Trainer::Impl::is_late_enough(const std::string& path) const {
    try {
        return finished_epochs(peek_checkpoint(path).progress) >= config.train.checkpoint.best_from;
    } catch (const DataError&) {  // it is not there, or of no use
        return false;
    }
}

void Trainer::Impl::note_what_is_there() {
    std::array<std::int64_t, 2> there{};  // as rank 0 sees them
    if (job.control.rank() == 0)
        for (const std::size_t i : {0U, 1U}) {
            std::error_code none;
            const std::int64_t step = i == 0 ? progress.step : progress.best_step;
            const std::string path = job.directory->checkpoint_path(step);
            const bool counts = i == 0 || !best_may_be_too_early || is_late_enough(path);
            there[i] = counts && std::filesystem::exists(path, none) ? 1 : 0;
        }
    job.control.broadcast(view_of(std::span(there)), 0).wait();
    if (there[0] == 0) last_save_samples = -1;
    if (progress.has_best && there[1] == 0) {
        progress.has_best = false;
        progress.best_step = -1;
    }
}

void Trainer::Impl::scatter_optimizer_state(const Checkpoint& checkpoint, const std::string& path) {
    for (const Optimizer::State& state : training.optimizer->state()) {
        together_on_first_rank(job.control, "resuming", [&] {
            graph.load_arena(graph.gradient_arena(), checkpoint.optimizer, state.name + "/", path);
        });
        training.shards->scatter(state);
    }
}

std::vector<NamedTensor> Trainer::Impl::optimizer_tensors() {
    std::vector<NamedTensor> tensors;
    for (const Optimizer::State& state : training.optimizer->state()) {
        const TensorView whole = training.shards ? training.shards->gather(state) : state.arena;
        together_on_first_rank(job.control, "saving the checkpoint", [&] {
            for (NamedTensor& tensor : graph.save_arena(whole, state.name + "/"))
                tensors.push_back(std::move(tensor));
        });
    }
    return tensors;
}

bool Trainer::Impl::is_other_evaluation(const Config& before,
                                        const std::optional<Normalisation>& trained) const {
    if (!job.val || before.data.normalize != config.data.normalize)
        return false;  // that, MetricChanges knows
    const DatasetInfo& info = job.val->info();
    return normalisation_of(trained ? as_trained(before.data, *trained, info) : before.data, info) !=
           normalisation_of(val_data, info);
}

void Trainer::Impl::forget_other_metrics(const Config& before, const std::optional<Normalisation>& trained) {
    const MetricChanges changed(before, config, is_other_evaluation(before, trained));
    if (changed.evaluation()) last_eval.clear();
    const auto is_other = [&](const std::string& then, const std::string& now) {
        return then != now || changed.metric(now);
    };
    if (is_other(before.train.checkpoint.best, config.train.checkpoint.best)) {
        progress.has_best = false;
        progress.best_step = -1;
    }
    best_may_be_too_early =
        progress.has_best && before.train.checkpoint.best_from < config.train.checkpoint.best_from;
    const auto& then = before.train.early_stopping;
    const auto& now = config.train.early_stopping;
    // Without early stopping nobody has counted.
    if (then.has_value() != now.has_value() || (then && is_other(then->metric, now->metric))) {
        progress.has_stop_metric = false;
        progress.stale_evals = 0;
    }
}

void Trainer::Impl::broadcast_state() {
    job.gradients.broadcast(graph.all_parameters(), 0).wait();
    graph.all_parameters_changed();
    job.gradients.broadcast(graph.buffer_arena(), 0).wait();
    if (!training.shards)
        for (const Optimizer::State& state : training.optimizer->state())
            job.gradients.broadcast(state.arena, 0).wait();
    if (average) job.gradients.broadcast(average->arena(), 0).wait();
    static_assert(std::is_trivially_copyable_v<Progress>);
    const TensorView bytes{
        reinterpret_cast<std::byte*>(&progress), DType::u8, {static_cast<std::int64_t>(sizeof(Progress))}};
    job.control.broadcast(bytes, 0).wait();
    last_eval = broadcast_text(job.control, last_eval, 0);
    bucket_plan = broadcast_text(job.control, bucket_plan, 0);
    progress.world_size = world;
}

void Trainer::Impl::save() {
    set_place(RunPlace::Work::checkpoint);
    const double begin = seconds_since_start();
    training.complete();
    std::vector<NamedTensor> optimizer = optimizer_tensors();
    together_on_first_rank(job.control, "saving the checkpoint", [&] {
        // A resume would begin behind the row and never make it.
        if (unwritten.code != ExitCode::done) throw Error(unwritten.code, unwritten.message);
        Checkpoint checkpoint;
        checkpoint.progress = progress;
        checkpoint.config = to_yaml(recorded);
        checkpoint.last_eval = last_eval;
        checkpoint.bucket_plan = bucket_plan;
        checkpoint.data_fingerprint = data_sign;
        checkpoint.normalisation = to_json(normalisation_of(config.data, job.train.info()));
        checkpoint.training_data = training_data_to_json(job.train.info());
        checkpoint.model = graph.save();
        check_finite(checkpoint.model, "", progress.step);
        checkpoint.optimizer = std::move(optimizer);
        check_finite(checkpoint.optimizer, "the optimizer's ", progress.step);
        if (average) checkpoint.ema = graph.save_arena(average->arena(), "");
        check_finite(checkpoint.ema, "the averaged ", progress.step);
        job.directory->require_own();
        try {
            save_checkpoint(job.directory->checkpoint_path(progress.step), checkpoint);
        } catch (const RunError&) {
            job.directory->require_own();  // somebody may be removing it: that is the reason then
            throw;
        }
        std::optional<std::int64_t> best;
        if (progress.has_best) best = progress.best_step;
        // While updates are skipped the weights are what may be wrong: they push out no others.
        if (training.skipped_series.empty())
            job.directory->prune_checkpoints(config.train.checkpoint.keep, best);
    });
    last_save_samples = progress.samples;
    best_is_unsaved = false;
    last_save_time = std::chrono::steady_clock::now();
    if (wall_time) wall_time->saved(seconds_since_start() - begin);
}

}  // namespace tutti
