#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command_line.hpp"
#include "inference.hpp"
#include "tutti/train/evaluation.hpp"

namespace tutti {
namespace {

int eval(const JobStart& start, const InferenceArguments& arguments, bool json) {
    Inference model = open_inference(start, arguments, false);
    const auto loss = make_softmax_cross_entropy(*model.device, model.graph->compute());
    const LossSums sums = evaluate({.graph = *model.graph,
                                    .loss = *loss,
                                    .stage = *model.stage,
                                    .dataset = *model.data,
                                    .loader = *model.loader,
                                    .communicator = *model.control,
                                    .batch_size = model.config.train.batch_size,
                                    .seed = model.config.run.seed});
    if (start.world.rank() != 0) return 0;
    const double mean = sums.weight > 0 ? sums.loss / sums.weight : 0.0;
    const double accuracy = sums.weight > 0 ? static_cast<double>(sums.correct) / sums.weight : 0.0;
    if (json) {
        nlohmann::ordered_json row;
        row["loss"] = mean;
        row["accuracy"] = accuracy;
        row["correct"] = sums.correct;
        row["samples"] = static_cast<std::int64_t>(sums.weight);
        row["data"] = model.data->name();
        row["weights"] = model.weights;
        row["weights_sha256"] = model.weights_sha256;
        row["world_size"] = start.world.size();
        fmt::print("{}\n", row.dump());
    } else {
        fmt::print("accuracy {}, loss {:.4f}\n", accuracy_text(sums), mean);
        fmt::print("test accuracy {}\n", accuracy_text(sums));
    }
    std::fflush(stdout);
    return 0;
}

}  // namespace

int eval_command(const Arguments& arguments) {
    CLI::App app(
        "Exact metrics of a trained model over a data set: every sample counts once, on any number of ranks.",
        "trainer eval");
    InferenceArguments given;
    bool json = false;
    add_inference_options(app, given);
    app.add_flag("--json", json, "print one JSON object and nothing else");
    if (!parse_arguments(app, arguments)) return 0;
    finish(given);
    return run_on_all_ranks([&](const JobStart& start) { return eval(start, given, json); });
}

}  // namespace tutti
