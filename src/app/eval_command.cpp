#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "command_line.hpp"
#include "inference.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/json_text.hpp"
#include "tutti/base/report_file.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/train/asked_metrics.hpp"
#include "tutti/train/evaluation.hpp"
#include "tutti/train/evaluation_json.hpp"
#include "tutti/train/objective.hpp"

namespace tutti {
namespace {

void print_confusion(const EvaluationResult& result, const std::vector<std::string>& class_names) {
    fmt::print("confusion, a row per label, a column per prediction\n");
    const auto rows = confusion_rows(result);
    for (std::size_t label = 0; label < rows.size(); ++label)
        fmt::print("  {} | {:>6}\n", label < class_names.size() ? class_names[label] : std::to_string(label),
                   fmt::join(rows[label], " "));
}

void print_metrics_on_earth(const EvaluationResult& sums) {
    if (!sums.earth) return;
    if (sums.earth->samples == 0) {
        fmt::print("\nno place is on the earth");
        return;
    }
    fmt::print("\n{:.1f} km on average over {}, median {:.1f}", sums.km(), sums.earth->samples,
               sums.earth->median);
    for (std::size_t i = 0; i < earth_radii.size(); ++i)
        fmt::print(", {:.4f} within {}", sums.within_km(i), earth_radii[i]);
}

std::string detection_text(const EvaluationResult::Detection& detection) {
    return fmt::format("POD {:.4f}, FAR {:.4f}, F1 {:.4f}", detection.probability,
                       detection.false_alarm_ratio, detection.f1);
}

void print_metrics_of_segments(const EvaluationResult& sums) {
    fmt::print("{}, loss {:.4f}", score_text(sums), sums.mean_loss());
    if (sums.unreadable > 0) fmt::print(", {} samples could not be read", sums.unreadable);
    fmt::print("\n{} segments predicted", sums.segments->predicted);
    if (sums.segments->with_segments == 0) fmt::print(", but no sample has any");
    for (std::size_t i = 0; sums.segments->with_segments > 0 && i < segment_ious.size(); ++i)
        fmt::print(", {:.4f} right from IoU {} on", sums.segment_precision(i), segment_ious[i]);
    fmt::print("\nseconds: balanced accuracy {:.4f}, {}\n", sums.balanced_accuracy(),
               detection_text(*sums.detection()));
    print_confusion(sums, {"outside", "inside"});
    if (sums.segments->with_segments > 0)
        fmt::print("test AtIoU {:.4f} ({:.0f} samples)\n", sums.atiou(), sums.weight);
    else
        fmt::print("test loss {:.4f} ({:.0f} samples)\n", sums.mean_loss(), sums.weight);
}

std::string ranking_text(const RankedScores& scores) {
    if (!scores.defined()) return "AUPRC and ROC AUC undefined";
    return fmt::format("AUPRC {:.4f}, ROC AUC {:.4f}", scores.average_precision(), scores.roc_auc());
}

constexpr const char *precision_recall_name = "pr_curve.csv", *roc_name = "roc_curve.csv";

/// Before the evaluation, of whose time nothing is to be lost.
void prepare_curves(const Inference& model, const std::string& directory) {
    const LossChoice loss = model.outputs.loss;
    const bool classes = is_of_classes(loss);
    const std::int64_t outputs = model.graph->output_shape().count();
    if (loss != LossChoice::location && (!classes || outputs != 2))
        throw UsageError(
            fmt::format("--curves is for models of two classes and the locator, but {} {}", model.weights,
                        classes ? fmt::format("has {}", outputs) : "is not of classes"),
            "leave it out");
    for (const char* name : {precision_recall_name, roc_name}) prepare_report(directory, name, "--curves");
}

void write_curves(const RankedScores& scores, const TrainConfig& config, const std::string& directory,
                  const std::string& data) {
    if (!scores.defined())
        throw DataError("--curves " + directory + ": " + data +
                            " has samples of one class only, or the model's outputs are not numbers (nan)",
                        "give data with samples of both classes, or leave --curves out");
    const auto location = location_of_run(config);
    const bool is_logit = !location || location->decoding.presence_score == PresenceScore::logit;
    const ScoreScale scale = is_logit ? ScoreScale::logit : ScoreScale::itself;
    const std::filesystem::path folder(directory);
    write_report((folder / precision_recall_name).string(), precision_recall_csv(scores, scale));
    write_report((folder / roc_name).string(), roc_csv(scores, scale));
}

void print_json(const Inference& model, const EvaluationResult& sums, int world_size) {
    nlohmann::ordered_json row;
    row["loss"] = sums.mean_loss();
    add_metrics(row, sums);
    row["samples"] = static_cast<std::int64_t>(sums.weight);
    if (sums.unreadable > 0) row["unreadable"] = sums.unreadable;
    row["data"] = fmt::format("{}", fmt::join(model.files, ", "));
    row["weights"] = model.weights;
    row["weights_sha256"] = model.weights_sha256;
    row["world_size"] = world_size;
    fmt::print("{}\n", json_text(row));
}

void print_metrics_of_targets(const EvaluationResult& sums) {
    fmt::print("{}, loss {:.4f}", score_text(sums), sums.mean_loss());
    if (sums.unreadable > 0) fmt::print(", {} samples could not be read", sums.unreadable);
    print_metrics_on_earth(sums);
    fmt::print("\ntest rmse {:.4f} ({:.0f} samples)\n", sums.rmse(), sums.weight);
}

void print_distances(const EvaluationResult& sums) {
    if (sums.of_label[1] == 0) {
        fmt::print("\nno sample is present");
        return;
    }
    fmt::print("\ndistance {:.2f} pixels over {} present, median {:.2f}", sums.distance(), sums.of_label[1],
               sums.median_distance);
    for (std::size_t i = 0; i < location_radii.size(); ++i)
        fmt::print(", {:.4f} within {}", sums.within(i), location_radii[i]);
    print_metrics_on_earth(sums);
}

/// Also of the locator, for which presence is a class.
void print_metrics_of_classes(const EvaluationResult& sums, const std::vector<std::string>& class_names) {
    fmt::print("accuracy {}, loss {:.4f}, balanced accuracy {:.4f}", accuracy_text(sums), sums.mean_loss(),
               sums.balanced_accuracy());
    if (sums.topk > 0) fmt::print(", top-{} accuracy {:.4f}", sums.topk, sums.topk_accuracy());
    if (const auto detection = sums.detection())
        fmt::print(", {}{}", detection_text(*detection), sums.of_label.size() > 2 ? " (class 1)" : "");
    if (sums.scores) fmt::print(", {}", ranking_text(*sums.scores));
    if (sums.unreadable > 0) fmt::print(", {} samples could not be read", sums.unreadable);
    if (sums.location) print_distances(sums);
    fmt::print("\n");
    if (!sums.confusion.empty())
        print_confusion(sums, sums.location ? std::vector<std::string>{"absent", "present"} : class_names);
    fmt::print("test accuracy {}\n", accuracy_text(sums));
}

void print_result(const Inference& model, const EvaluationResult& sums) {
    if (sums.segments) {
        print_metrics_of_segments(sums);
    } else if (sums.loss_only) {
        if (sums.unreadable > 0) fmt::print("{} samples could not be read\n", sums.unreadable);
        fmt::print("test loss {:.4f} ({})\n", sums.mean_loss(), score_text(sums));
    } else if (sums.targets > 0) {
        print_metrics_of_targets(sums);
    } else {
        print_metrics_of_classes(sums, model.data->info().class_names);
    }
}

int eval(const JobStart& start, const InferenceArguments& arguments, bool json, const std::string& curves) {
    const StopSignal signals;
    Inference model = open_inference(start, arguments, InferenceUse::metrics);
    if (!curves.empty())
        together_on_first_rank(*model.control, "checking --curves", [&] { prepare_curves(model, curves); });
    const std::int64_t classes = model.graph->output_shape().count();
    const auto loss =
        make_evaluation_loss(*model.device, model.graph->compute(), model.config.train, model.data->info());
    SkippedSamples unreadable;
    const EvaluationResult sums =
        evaluate({.lanes = {{*model.graph, *loss, *model.stage}},
                  .dataset = *model.data,
                  .loader = *model.loader,
                  .communicator = *model.control,
                  .batch_size = model.config.train.batch_size,
                  .seed = model.config.run.seed,
                  .topk = topk_of(model.config.train, classes),
                  .confusion = model.config.train.confusion,
                  .ranking = !curves.empty() || ranking_of(model.config.train, classes),
                  .loss_only = model.outputs.loss == LossChoice::reconstruction,
                  .location = location_of_run(model.config.train),
                  .segments = segments_of_run(model.config.train),
                  .geography = model.geography ? &*model.geography : nullptr,
                  .skipped = &unreadable,
                  .log = &start.log,
                  .ends_on_signal = true});
    if (sums.stopped) throw AgreedError(ExitCode::failed, "eval was stopped by a signal; start it again");
    const auto samples = static_cast<std::int64_t>(sums.weight);
    if (const std::string doubt = doubt_about_outputs(sums.not_finite, samples); !doubt.empty())
        start.log.warning(model.data->name() + ": " + doubt);
    if (start.world.rank() == 0) {
        if (json)
            print_json(model, sums, start.world.size());
        else
            print_result(model, sums);
        std::fflush(stdout);
    }
    if (!curves.empty())
        together_on_first_rank(*model.control, "writing the curves", [&] {
            write_curves(*sums.scores, model.config.train, curves, model.data->name());
        });
    return 0;
}

}  // namespace

int eval_command(const Arguments& arguments) {
    OptionParser parser(
        "Exact metrics of a trained model over a data set: every sample counts once, on any number of ranks.",
        "trainer eval");
    InferenceArguments given;
    bool json = false;
    std::string curves;
    add_inference_options(parser, given);
    parser.add_flag("--json", json, "print one JSON object and nothing else");
    const ParserOption with_curves = parser.add_option(
        "--curves", curves,
        "of two classes, or a locator: directory for pr_curve.csv and roc_curve.csv, of precision and recall "
        "and of true and false positives at every threshold");
    if (!parse_arguments(parser, arguments)) return 0;
    finish(given);
    if (with_curves.given() && curves.empty())
        throw UsageError("--curves is empty", "name a directory, . for this one");
    return run_on_all_ranks(call_of(parser), timeout_before_start(given),
                            [&](const JobStart& start) { return eval(start, given, json, curves); });
}

}  // namespace tutti
