#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "command_line.hpp"
#include "eval_report.hpp"
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

EvaluationResult evaluate_model(const JobStart& start, const Inference& model, bool with_curves) {
    AskedMetrics metrics = asked_metrics(model.config.train, model.graph->output_shape().count());
    metrics.ranking = metrics.ranking || with_curves;
    metrics.loss_only = model.outputs.loss == LossChoice::reconstruction;  // which the config may leave open
    const auto loss =
        make_evaluation_loss(*model.device, model.graph->compute(), model.config.train, model.data->info());
    SkippedSamples unreadable;
    EvaluationResult sums = evaluate({.lanes = {{*model.graph, *loss, *model.stage}},
                                      .dataset = *model.data,
                                      .loader = *model.loader,
                                      .communicator = *model.control,
                                      .batch_size = model.config.train.batch_size,
                                      .seed = model.config.run.seed,
                                      .metrics = metrics,
                                      .geography = model.geography ? &*model.geography : nullptr,
                                      .skipped = &unreadable,
                                      .log = &start.log,
                                      .ends_on_signal = true});
    if (sums.stopped) throw AgreedError(ExitCode::failed, "eval was stopped by a signal; start it again");
    return sums;
}

int eval(const JobStart& start, const InferenceArguments& arguments, bool json, const std::string& curves) {
    const StopSignal signals;
    if (!curves.empty())
        together_on_first_rank(start.world, "checking --curves", [&] {
            for (const char* name : {precision_recall_name, roc_name})
                check_report_place(curves, name, "--curves");
        });
    Inference model = open_inference(start, arguments, InferenceUse::metrics);
    if (!curves.empty())
        together_on_first_rank(*model.control, "checking --curves", [&] { prepare_curves(model, curves); });
    const EvaluationResult sums = evaluate_model(start, model, !curves.empty());
    const auto samples = static_cast<std::int64_t>(sums.weight);
    if (const std::string doubt = doubt_about_outputs(sums.not_finite, samples); !doubt.empty())
        start.log.warning(model.data->name() + ": " + doubt);
    if (start.world.rank() == 0) {
        if (json)
            print_json(model, sums, start.world.size());
        else
            print_evaluation(sums, model.outputs.class_names);
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
    const ParserOption with_curves = parser.add_path(
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
