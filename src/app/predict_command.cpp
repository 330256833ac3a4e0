#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "command_line.hpp"
#include "inference.hpp"
#include "output_file.hpp"
#include "tutti/base/familiar_options.hpp"
#include "tutti/base/report_file.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/base/units.hpp"
#include "tutti/train/evaluation_result.hpp"
#include "tutti/train/objective.hpp"
#include "tutti/train/prediction.hpp"

namespace tutti {
namespace {

struct PredictArguments {
    InferenceArguments inference;
    std::string output;
    bool embeddings = false, no_embeddings = false, no_logits = false;
};

/// Hundreds of columns are welcome in HDF5, and in CSV to who asks for them.
EmbeddingUse embedding_use(const PredictArguments& arguments) {
    if (arguments.embeddings) return EmbeddingUse::needed;
    return writes_csv(arguments.output) || arguments.no_embeddings ? EmbeddingUse::none
                                                                   : EmbeddingUse::where_there_is_one;
}

// What is read must not be what is written.
void check_output(const std::string& output, const std::vector<std::string>& inputs) {
    std::error_code ignored;
    for (const std::string& input : inputs)
        if (std::filesystem::equivalent(output, input, ignored))
            throw UsageError("-o " + output + " is a file that is read", "give another file");
    refuse_other_than_predictions(output);
}

void check_request(const Inference& model, const PredictArguments& arguments) {
    check_output(arguments.output, model.config.data.val);
    check_output(arguments.output, {model.weights});
    if (arguments.no_logits && !is_of_classes(model.outputs.loss))
        throw UsageError(fmt::format("--no-logits: the outputs of {} are its predictions",
                                     model.outputs.regression ? std::string("a model for regression")
                                                              : "the model " + model.config.model.name),
                         "leave it out");
}

/// The columns of a row: logits of classes, or the outputs and targets of what is no class.
PredictionFormat format_of(const Inference& model, bool has_paths, bool no_logits) {
    const DatasetInfo& info = model.data->info();
    const std::int64_t outputs = model.graph->output_shape().count();
    PredictionFormat format;
    format.has_paths = has_paths;
    format.samples = info.samples;
    format.dtype = model.graph->compute();
    format.embedding = model.embedding ? model.embedding->width : 0;
    if (!is_of_targets(model.outputs.loss)) {
        format.logits = no_logits ? 0 : outputs;
        format.class_names = model.outputs.class_names;
    } else if (const auto segments = segments_of_run(model.config.train)) {
        format.output_names = segment_columns(segments->selection, info.sample_shape[0]);
        format.outputs = std::ssize(format.output_names);  // no targets: two columns a second
    } else {
        const bool location = location_of_run(model.config.train).has_value();
        format.outputs = location ? std::ssize(location_columns) : outputs;
        if (location) format.output_names.assign(location_columns.begin(), location_columns.end());
        format.targets = info.targets;
        format.target_names = model.outputs.target_names;
    }
    if (model.geography)
        format.earth = info.targets > 0 ? std::ssize(earth_columns) : std::ssize(earth_columns) - 1;
    return format;
}

/// What is said of them all, behind the number of rows.
std::string score_of(const Inference& model, const PredictionFormat& format, const PredictionCounts& counts) {
    if (is_of_targets(model.outputs.loss))
        return fmt::format("{} output{} each", format.outputs, format.outputs == 1 ? "" : "s");
    if (!model.data->info().labelled) return "the data have no labels";
    return "accuracy " + accuracy_text({0, static_cast<double>(counts.samples), counts.correct});
}

int predict_job(const JobStart& start, PredictArguments arguments) {
    const StopSignal signals;
    // Before device, data and weights, which may take minutes.
    together_on_first_rank(start.world, "checking the output", [&] {
        check_output(arguments.output, arguments.inference.data);
        const std::string path = prepare_output(arguments.output);
        check_prediction_path(path);
        if (writes_csv(path) != writes_csv(arguments.output))
            throw UsageError("-o " + arguments.output + " is a link to " + path + ", which ends otherwise",
                             "give a name that ends as the file does");
        arguments.output = path;
    });
    Inference model =
        open_inference(start, arguments.inference, InferenceUse::predictions, embedding_use(arguments));
    Communicator& control = *model.control;
    together_on_first_rank(control, "checking the output", [&] { check_request(model, arguments); });
    std::unique_ptr<SamplePaths> paths;  // of rank 0, which writes them
    together_on_first_rank(control, "opening the data", [&] { paths = open_sample_paths(model.files); });
    const PredictionFormat format = format_of(model, paths != nullptr, arguments.no_logits);
    const auto location = location_of_run(model.config.train);
    const auto segments = segments_of_run(model.config.train);

    std::unique_ptr<PredictionWriter> writer;
    together_on_first_rank(control, "opening " + arguments.output, [&] {
        make_folder_of(arguments.output);
        writer =
            make_prediction_writer(arguments.output, format,
                                   {model.weights, model.weights_sha256,
                                    fmt::format("{}", fmt::join(model.files, ", ")), to_yaml(model.config)});
    });
    const PredictionCounts counts =
        predict({.graph = *model.graph,
                 .device = *model.device,
                 .stage = *model.stage,
                 .dataset = *model.data,
                 .loader = *model.loader,
                 .communicator = control,
                 .format = format,
                 .embedding = model.embedding ? &*model.embedding : nullptr,
                 .writer = writer.get(),
                 .paths = paths.get(),
                 .location = location ? std::optional(location->decoding) : std::nullopt,
                 .segments = segments ? std::optional(segments->selection) : std::nullopt,
                 .geography = model.geography ? &*model.geography : nullptr,
                 .batch_size = model.config.train.batch_size,
                 .seed = model.config.run.seed});
    together_on_first_rank(control, "writing " + arguments.output, [&] { writer->commit(); });
    if (const std::string doubt = doubt_about_outputs(counts.not_finite, counts.samples); !doubt.empty())
        start.log.warning(model.data->name() + ": " + doubt);
    if (control.rank() != 0) return 0;
    fmt::print("{}: {}, {}\n", arguments.output, counted(counts.samples, "row"),
               score_of(model, format, counts));
    std::fflush(stdout);
    return 0;
}

}  // namespace

int predict_command(const Arguments& arguments) {
    OptionParser parser(
        "Writes what a trained model makes of each sample: one row per sample, in the order of the data, on "
        "any number of ranks.",
        "trainer predict");
    PredictArguments given;
    add_inference_options(parser, given.inference);
    parser.add_path("-o,--output", given.output, "file to write: .h5 or .csv").required();
    parser.add_flag(
        "--embeddings", given.embeddings,
        "write the input of the last linear layer: to CSV, too, and an error where there is none");
    parser.add_flag("--no-embeddings", given.no_embeddings, "leave them out of HDF5");
    parser.add_flag("--no-logits", given.no_logits, "leave out the logits");
    if (!parse_arguments(parser, translate_familiar_flags(arguments, "predict"))) return 0;
    finish(given.inference);
    check_prediction_path(given.output);
    if (given.embeddings && given.no_embeddings)
        throw UsageError("--embeddings and --no-embeddings are both given", "leave one out");
    return run_on_all_ranks(call_of(parser), timeout_before_start(given.inference),
                            [&](const JobStart& start) { return predict_job(start, given); });
}

}  // namespace tutti
