#include "inference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "expected_reads.hpp"
#include "files_in_memory.hpp"
#include "option_parser.hpp"
#include "rank_placement.hpp"
#include "run_folder.hpp"
#include "same_job.hpp"
#include "select.hpp"
#include "transformed_data.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/expanded_path.hpp"
#include "tutti/base/json_text.hpp"
#include "tutti/base/matching_files.hpp"
#include "tutti/base/path_type.hpp"
#include "tutti/base/sha256.hpp"
#include "tutti/base/shell_word.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/base/units.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/asked_metrics.hpp"
#include "tutti/train/checkpoint.hpp"
#include "tutti/train/objective.hpp"
#include "tutti/train/other_model.hpp"
#include "tutti/train/precision.hpp"
#include "tutti/train/weights_file.hpp"
#include "weights_in_run.hpp"

namespace tutti {
namespace {

const std::string& place_of_weights(const InferenceArguments& arguments) {
    return arguments.checkpoint.empty() ? arguments.run : arguments.checkpoint;
}

std::string weights_path(const InferenceArguments& arguments) {
    if (arguments.checkpoint.empty() && type_of_path(arguments.run) != std::filesystem::file_type::directory)
        throw DataError(arguments.run + " is not a run directory", "name the folder that training made");
    const std::string path = weights_in(place_of_weights(arguments), arguments.best);
    if (is_dataset_file(path))
        throw DataError(path + " is a data set of samples, not weights",
                        "give weights with --checkpoint FILE or --run DIR, and data with --data FILE.h5");
    return path;
}

Recipe find_recipe(const InferenceArguments& arguments, const std::string& weights) {
    if (!arguments.config.empty()) {
        const StopSignal signals;  // only here, where it may wait for a pipe
        return {read_config_text(arguments.config), arguments.config};
    }
    for (const std::string& directory : {arguments.run, arguments.checkpoint}) {
        const std::string config = directory + "/config.yaml";
        if (!directory.empty() && type_of_path(config) != std::filesystem::file_type::not_found)
            return {read_config_text(config, ConfigText::of_run), config};
    }
    if (type_of_path(weights) == std::filesystem::file_type::not_found)
        throw DataError(weights + " does not exist", "check the path");
    if (!is_checkpoint(weights)) {
        // What holds no weights, as an archive of torch.save(), says so first.
        if (!is_exported_file(weights)) static_cast<void>(read_weights(weights));
        throw UsageError(weights + " is not a checkpoint of a run, so it says nothing about the model",
                         "give its config with -c FILE.yaml");
    }
    return {peek_checkpoint(weights).config, weights};
}

std::string hash_of_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file)
        throw DataError(path + " cannot be read: " + std::generic_category().message(errno),
                        "check the path and its permissions");
    Sha256 hash;
    std::vector<char> piece(std::size_t{1} << 20U);
    while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0)
        hash.update(std::string_view(piece.data(), static_cast<std::size_t>(file.gcount())));
    // A read that fails looks like the end.
    if (file.bad()) throw DataError(path + " cannot be read to its end", "check the disk, or copy it again");
    return hash.hex();
}

/// Rank 0 finds and reads the weights. A rank that names them in other words must mean the same: its path is
/// its own, and the files are compared.
std::string share_weights_path(Communicator& world, const InferenceArguments& arguments,
                               const std::string& names) {
    std::string path;
    together_on_first_rank(world, "looking for the weights", [&] { path = weights_path(arguments); });
    path = broadcast_text(world, path, 0);
    const bool has_its_own = broadcast_text(world, names, 0) != names;
    std::int64_t any = has_its_own ? 1 : 0;
    world.all_reduce(view_of(std::span(&any, 1)), ReduceOp::max).wait();
    if (any == 0) return path;
    std::string hash;
    together(world, "looking for the weights", [&] {
        if (has_its_own) path = weights_path(arguments);
        if (has_its_own || world.rank() == 0) hash = hash_of_file(path);
    });
    const std::string hash_of_rank_0 = broadcast_text(world, hash, 0);
    together(world, "looking for the weights", [&] {
        if (has_its_own && hash != hash_of_rank_0)
            throw UsageError(path + " holds other weights than rank 0's",
                             "start all ranks with the same command line");
    });
    return path;
}

TensorView bytes_of(std::vector<std::byte>& bytes) {
    return {bytes.data(), DType::u8, {static_cast<std::int64_t>(bytes.size())}};
}

/// Rank 0's tensors, on every rank.
std::vector<NamedTensor> share_tensors(Communicator& communicator, std::vector<NamedTensor> tensors) {
    nlohmann::json list = nlohmann::json::array();
    for (const NamedTensor& tensor : tensors)
        list.push_back({tensor.name, static_cast<int>(tensor.dtype),
                        std::vector<std::int64_t>(tensor.shape.begin(), tensor.shape.end())});
    // A name that is not UTF-8 is no parameter's: loading says so, on every rank.
    list = nlohmann::json::parse(broadcast_text(communicator, json_text(list), 0));
    tensors.resize(list.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        NamedTensor& tensor = tensors[i];
        const auto dims = list[i][2].get<std::vector<std::int64_t>>();
        tensor.name = list[i][0].get<std::string>();
        tensor.dtype = static_cast<DType>(list[i][1].get<int>());
        tensor.shape = Shape(std::span<const std::int64_t>(dims));
        tensor.bytes.resize(static_cast<std::size_t>(tensor.shape.count()) * size_of(tensor.dtype));
        communicator.broadcast(bytes_of(tensor.bytes), 0).wait();
    }
    return tensors;
}

/// Whether they are a moving average, rank 0 says.
bool load_weights(Inference& inference) {
    std::vector<NamedTensor> tensors;
    bool averaged = false;
    together_on_first_rank(*inference.control, "reading the weights", [&] {
        tensors = weights_to_evaluate(inference.weights);
        averaged = are_averaged(inference.weights);
    });
    Checkpoint checkpoint;
    checkpoint.model = share_tensors(*inference.control, std::move(tensors));
    inference.weights_sha256 = model_sha256(checkpoint);
    together(*inference.control, "loading the weights", [&] {
        refuse_common_prefix(checkpoint.model, *inference.graph, inference.weights);
        try {
            inference.graph->load(checkpoint.model, inference.weights);
        } catch (const DataError& error) {
            // Where the model follows from the data, theirs may be the wrong shape.
            throw DataError(other_model(inference.weights, inference.config) + "a model for " +
                            inference.data->name() + ", samples of shape " +
                            to_string(inference.data->info().sample_shape) +
                            ", does not take these weights: " + error.what() +
                            ", or give data of the shape that they were trained on");
        }
    });
    return averaged;
}

void build(Inference& inference, InferenceUse use, EmbeddingUse embedding) {
    const Config& config = inference.config;
    const DatasetInfo& info = inference.data->info();
    const DType compute = compute_type(config.train.precision);
    const std::int64_t batch = config.train.batch_size;
    if (info.samples == 0)
        throw DataError(inference.data->name() + ": there are no samples", "give data that have some");
    if (inference.outputs.loss == LossChoice::reconstruction && use == InferenceUse::predictions)
        throw UsageError(
            "the model says hidden pixels of clips, which predict does not write",
            "train a model that classifies with its encoder: model.name=videomae model.init_from=" +
                inference.weights);
    ModelInput input = model_input(info, config.data);
    input.classes = inference.outputs.count;
    input.targets = false;
    GraphSpec spec = build_model_for(config.model, input, info);
    // A list of layers may give more than classes that are known; targets are as many as it gives.
    const std::int64_t given = spec.nodes().back().shape[0];
    if (inference.outputs.regression) inference.outputs.count = given;
    check_comparable(inference.outputs, *inference.data, use);
    const LossChoice loss = inference.outputs.loss;
    if (use == InferenceUse::metrics && (is_of_classes(loss) || is_regression(loss)))
        check_metrics(config.train, given);
    if (embedding == EmbeddingUse::needed ||
        (embedding == EmbeddingUse::where_there_is_one && has_embedding(spec)))
        inference.embedding = keep_embedding(spec);
    inference.graph = std::make_unique<Graph>(std::move(spec), *inference.device,
                                              arithmetic_of(config.train.precision), batch);
    inference.loader = std::make_unique<Loader>(
        *inference.data, batch, loader_workers(config.data), static_cast<int>(config.data.prefetch),
        inference.device.get(), use == InferenceUse::metrics ? config.data.on_error : OnError::stop);
    inference.stage = std::make_unique<BatchStage>(*inference.device, info, config.data, compute, batch);
}

}  // namespace

void add_inference_options(OptionParser& parser, InferenceArguments& arguments) {
    parser.add_path("-c,--config", arguments.config,
                    "YAML file; without it the config of the run or of the checkpoint");
    parser.add_path("--run", arguments.run, "run directory: its config and its latest checkpoint");
    parser.add_path(
        "--checkpoint", arguments.checkpoint,
        "weights: a checkpoint or a run directory (its latest); with -c also safetensors or other "
        "HDF5");
    parser.add_flag("--best", arguments.best, best_help);
    parser
        .add_path("--data", arguments.data,
                  "HDF5 files to read, or patterns, as 'shards/*.h5'; without it data.val of the config")
        .one_word_each();
    parser.add_option("key=value", arguments.overrides,
                      "settings that override the config, for example train.batch_size=256");
}

void finish(InferenceArguments& arguments) {
    // `--data A.h5 B.h5`: words without = are no settings.
    const auto files =
        std::stable_partition(arguments.overrides.begin(), arguments.overrides.end(),
                              [](const std::string& word) { return word.find('=') != std::string::npos; });
    if (!arguments.data.empty()) {
        std::transform(files, arguments.overrides.end(), std::back_inserter(arguments.data),
                       [](const std::string& file) { return expanded_option("--data", file); });
        arguments.overrides.erase(files, arguments.overrides.end());
        arguments.data = matching_files(arguments.data);
    }
    const auto word = std::ranges::find_if(
        arguments.overrides, [](const std::string& one) { return one.find('=') == std::string::npos; });
    if (arguments.run.empty() && arguments.checkpoint.empty())
        throw UsageError(
            "no weights are named",
            "give --checkpoint FILE or --run DIR" +
                (word == arguments.overrides.end() ? "" : ", for example --run " + shell_word(*word)));
    if (word != arguments.overrides.end())
        throw UsageError(*word + " is neither a setting, key=value, nor behind an option",
                         "data are named with --data " + shell_word(*word));
}

std::optional<double> timeout_before_start(const InferenceArguments& arguments) {
    const bool of_run = arguments.config.empty() && !arguments.run.empty();
    return timeout_before_start(of_run ? arguments.run + "/config.yaml" : arguments.config,
                                arguments.overrides);
}

namespace {

/// Of ranks that name the weights in several ways, those with a config of their own have its paths.
void find_data(Communicator& world, const InferenceArguments& arguments, const std::string& source,
               DataConfig& data) {
    const bool of_run = arguments.config.empty();
    std::string folder;
    together_on_first_rank(world, "looking for the data", [&] {
        if (of_run) folder = start_folder_of_run(source);
    });
    folder = broadcast_text(world, folder, 0);
    together(world, "looking for the data", [&] {
        if (!of_run) return;
        find_data_of_run(data, folder, arguments.overrides);
        if (arguments.data.empty() && !is_overridden(arguments.overrides, "val"))
            require_data_of_run(data.val, folder,
                                "name the data: --data FILE.h5, or start it in the folder that they are "
                                "relative to");
    });
}

/// The config, the same on all ranks.
void read_settings(const JobStart& start, const InferenceArguments& arguments, const Recipe& recipe,
                   Config& config) {
    together(start.world, "reading the config", [&] {
        config = parse_config(recipe.text, recipe.source, arguments.overrides);
        start.log.set_level(parse_log_level(config.run.log_level));
        if (arguments.data.empty() && config.data.val.empty())
            throw UsageError("no data are named", "give --data FILE.h5, or set data.val");
    });
    find_data(start.world, arguments, recipe.source, config.data);
    require_same_settings(start.world, config);
}

void choose_device(const JobStart& start, const RankPlace& place, Inference& inference) {
    // Nothing of the device's memory travels: ranks may share a GPU.
    SelectedDevice selected =
        select_device(start.over(*inference.control), inference.config, place.threads, GpuSharing::allow);
    if (!selected.notice.empty()) start.log.info(selected.notice);
    inference.device = std::move(selected.device);
}

void open_data(const InferenceArguments& arguments, InferenceUse use, const std::vector<RankPlace>& places,
               Inference& inference) {
    Communicator& control = *inference.control;
    Config& config = inference.config;
    const auto rank = static_cast<std::size_t>(control.rank());
    inference.files = arguments.data.empty() ? config.data.val : arguments.data;
    bool of_classes = false;
    together_on_first_rank(control, "opening the data",
                           [&] { of_classes = is_known_to_be_of_classes(config, inference.weights); });
    of_classes = !broadcast_text(control, of_classes ? "classes" : "", 0).empty();
    together(control, "opening the data", [&] {
        auto data =
            open_datasets(inference.files, file_memory_of_rank(ranks_beside(places, rank)),
                          use == InferenceUse::predictions ? Labels::optional : labels_needed(config));
        // Before the transforms, which many targets go without.
        if (of_classes && data->info().targets > 0) check_comparable(ModelOutputs(), *data, use);
        inference.data = transformed(std::move(data), config, TransformUse::evaluation);
        inference.data->expect_reads(
            reads_on_host(static_cast<double>(inference.data->info().samples), places, rank));
    });
    require_same_data(control, *inference.data);
    // Memory for more samples than there are would never be used. (Not for a rank's: that might change bits.)
    config.train.batch_size =
        std::min(config.train.batch_size, std::max<std::int64_t>(inference.data->info().samples, 1));
}

/// What the model gives, by what rank 0 finds.
void find_outputs(const JobStart& start, Inference& inference) {
    Communicator& control = *inference.control;
    together_on_first_rank(control, "opening the data", [&] {
        inference.outputs = find_model_outputs(inference.config, inference.weights, *inference.data);
        if (const std::string& doubt = inference.outputs.doubt; !doubt.empty())
            start.log.warning(inference.data->name() + ": " + doubt);
        if (const std::string& other = inference.data->info().other_normalisation;
            !other.empty() && !inference.config.data.normalize)
            start.log.warning(other);
    });
    inference.outputs = share(control, inference.outputs);
    if (const auto& trained = inference.outputs.trained) {
        DataConfig& config = inference.config.data;
        tell_of_normalisation(start.log, inference.data->name(), config, *trained, inference.data->info());
        config = as_trained(std::move(config), *trained, inference.data->info());
    } else if (const std::string doubt =
                   doubt_about_raw_images(inference.config.data, inference.data->info());
               !doubt.empty()) {
        start.log.warning(inference.data->name() + ": " + doubt);
    }
    if (inference.outputs.regression) inference.config.train.loss = inference.outputs.loss;
}

void find_places_on_earth(Inference& inference) {
    const Config& config = inference.config;
    together(*inference.control, "reading where on the earth pixels are", [&] {
        check_geography(config.data, inference.outputs.loss, inference.outputs.count);
        if (config.data.has_geography())
            inference.geography =
                open_geography(config.data, inference.files, inference.data->info().sample_shape);
    });
}

/// weights: as soon as they are found. recipe: is found where there is none yet, as a pipe is read once.
Inference open_found(const JobStart& start, const InferenceArguments& arguments, InferenceUse use,
                     EmbeddingUse embedding, std::string& weights, std::optional<Recipe>& found) {
    Inference inference;
    Communicator& world = start.world;
    const std::string names = arguments.config + "\n" + arguments.run + "\n" + arguments.checkpoint;
    weights = inference.weights = share_weights_path(world, arguments, names);
    if (!found) found = share_recipe(world, names, [&] { return find_recipe(arguments, inference.weights); });
    read_settings(start, arguments, *found, inference.config);
    inference.control = start.timed_world(inference.config.distributed);
    const auto places = exchange_places(*inference.control, start.session);
    choose_device(start, places[static_cast<std::size_t>(world.rank())], inference);
    open_data(arguments, use, places, inference);
    find_outputs(start, inference);
    together(*inference.control, "building the model", [&] { build(inference, use, embedding); });
    find_places_on_earth(inference);
    const bool averaged = load_weights(inference);
    if (std::ranges::any_of(arguments.overrides,
                            [](const auto& one) { return one.starts_with("train.ema"); }))
        start.log.warning("train.ema has no effect on trained weights" +
                          (averaged ? ": " + inference.weights + " holds their average, which is used" : ""));
    start.log.info(
        fmt::format("weights {}{}, data {}: {}, {}{}", inference.weights, averaged ? averaged_note : "",
                    inference.data->name(), counted(inference.data->info().samples, "sample"),
                    counted(world.size(), "rank"), products_note(inference.config.train.precision)));
    return inference;
}

/// Whether any rank's are no longer there. Collective; false where a peer is lost.
bool any_is_removed(Communicator& world, const InferenceArguments& arguments, const std::string& weights) {
    try {
        std::int64_t any = is_removed(place_of_weights(arguments), weights) ? 1 : 0;
        world.all_reduce(view_of(std::span(&any, 1)), ReduceOp::max).wait();
        return any != 0;
    } catch (const Error&) {
        return false;  // what was agreed on before says more
    }
}

}  // namespace

Inference open_inference(const JobStart& start, const InferenceArguments& arguments, InferenceUse use,
                         EmbeddingUse embedding) {
    std::optional<Recipe> recipe;
    for (int tries = 1;; ++tries) {
        std::string weights;
        try {
            return open_found(start, arguments, use, embedding, weights, recipe);
        } catch (const AgreedError& error) {
            if (!any_is_removed(start.world, arguments, weights)) throw;
            if (tries < most_searches) continue;
            if (error.code() != ExitCode::data) throw;
            throw AgreedError(ExitCode::data, text_of_removed(place_of_weights(arguments)));
        }
    }
}

}  // namespace tutti
