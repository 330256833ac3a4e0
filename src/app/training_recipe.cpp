#include "training_recipe.hpp"

#include <algorithm>

#include "device_choice.hpp"
#include "expected_reads.hpp"
#include "files_in_memory.hpp"
#include "option_parser.hpp"
#include "quickstart_recipe.hpp"
#include "same_job.hpp"
#include "select.hpp"
#include "transformed_data.hpp"
#include "tutti/base/device_choice.hpp"
#include "tutti/base/error.hpp"
#include "tutti/comm/all_reduce_path.hpp"
#include "tutti/train/objective.hpp"
#include "tutti/train/shard_plan.hpp"
#include "tutti/train/training_checks.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {
namespace {

// Who names data of their own does not want the recipe's, neither for training nor for validation.
bool names_data(const std::vector<std::string>& overrides) {
    return std::any_of(overrides.begin(), overrides.end(), [](const std::string& setting) {
        return setting.starts_with("data.train=") || setting.starts_with("data=");
    });
}

Recipe read_recipe(const RecipeArguments& arguments) {
    if (!arguments.config_path.empty())
        return {read_config_text(arguments.config_path), arguments.config_path};
    const bool brings_data = arguments.own_data || names_data(arguments.overrides);
    return {quickstart_recipe(brings_data ? "" : find_quickstart_data()), "quickstart"};
}

Config device_config(const JobStart& start, Config config) {
    const DeviceChoice choice = choice_of(config);
    if (choice != config.device)
        start.log.info("device: auto takes the CPU, as run.deterministic is true (device: cuda takes GPUs)");
    config.device = choice;
    return config;
}

/// data.train first: it may map and bring in what it can, data.val what is left of the one budget.
void open_data(const JobStart& start, const Config& config, bool whole_run,
               const std::function<std::unique_ptr<Dataset>()>& make_data, TrainingInputs& inputs) {
    if (whole_run) check_best(config);
    const auto rank = static_cast<std::size_t>(start.world.rank());
    const FileMemory memory = file_memory_of_rank(ranks_beside(inputs.places, rank));
    inputs.train =
        transformed(make_data ? make_data() : open_datasets(config.data.train, memory, labels_needed(config)),
                    config, TransformUse::training);
    if (!whole_run) return;
    const std::int64_t samples = inputs.train->info().samples, world = start.world.size();
    const auto on_host = [&](double reads) { return reads_on_host(reads, inputs.places, rank); };
    inputs.train->expect_reads(on_host(training_reads(config, samples, world)));
    if (config.data.val.empty()) return;
    inputs.val =
        transformed(open_datasets(config.data.val, memory.left_by(*inputs.train), labels_needed(config)),
                    config, TransformUse::evaluation);
    inputs.val->expect_reads(on_host(validation_reads(config, samples, inputs.val->info().samples, world)));
}

}  // namespace

void check_strategy(const Config& config, int world, bool own_data) {
    check_deterministic(config, world);
    if (config.distributed.strategy == Strategy::single && world > 1)
        throw UsageError("distributed.strategy is single, but there are " + std::to_string(world) + " ranks",
                         "start one rank, or set distributed.strategy: auto");
    if (config.data.train.empty() && !own_data)
        throw UsageError("data.train is not set",
                         "give an HDF5 file: data.train=FILE.h5 (trainer pack makes one)");
}

void check_best(const Config& config) {
    if (config.data.val.empty() && !config.train.checkpoint.best.empty())
        throw UsageError("train.checkpoint.best is " + config.train.checkpoint.best +
                             ", but there are no data to evaluate on",
                         "set data.val, or train.checkpoint.best=null");
}

void add_recipe_options(OptionParser& parser, RecipeArguments& arguments) {
    parser.add_path("-c,--config", arguments.config_path, "YAML file");
    parser.add_option("key=value", arguments.overrides,
                      "settings that override the file, for example train.epochs=1");
}

Config read_training_config(const JobStart& start, const RecipeArguments& arguments) {
    const Recipe recipe =
        share_recipe(start.world, arguments.config_path, [&] { return read_recipe(arguments); });
    Config config;
    together(start.world, "reading the config", [&] {
        config = parse_config(recipe.text, recipe.source, arguments.overrides);
        check_strategy(config, start.world.size(), arguments.own_data);
        start.log.set_level(parse_log_level(config.run.log_level));
        if (!arguments.doubt.empty()) start.log.warning(arguments.doubt);
        if (const std::string doubt =
                doubt_about_translation(recipe.text, recipe.source, arguments.overrides);
            !doubt.empty())
            start.log.warning(doubt);
    });
    require_same_settings(start.world, config);
    return config;
}

TrainingInputs open_training(const JobStart& start, const Config& config, bool whole_run,
                             const std::function<std::unique_ptr<Dataset>()>& make_data) {
    TrainingInputs inputs;
    inputs.places = exchange_places(start.world, start.session);
    const Config on_device = device_config(start, config);
    const RankPlace& mine = inputs.places[static_cast<std::size_t>(start.world.rank())];
    SelectedDevice selected = select_device(start, on_device, mine.threads,
                                            sharing_under(start.environment, config.distributed.backend));
    if (!selected.notice.empty()) start.log.info(selected.notice);
    inputs.device = std::move(selected.device);
    inputs.device->set_engine_trials(config.run.autotune);
    inputs.gpu = selected.gpu;
    if (config.run.deterministic && inputs.gpu) require_same_gpus(start.world, selected.basis_of_bits);
    together(start.world, "choosing what carries the gradients",
             [&] { check_backend(config.distributed.backend, inputs.gpu.has_value()); });
    together(start.world, "opening the data", [&] {
        open_data(start, config, whole_run, make_data, inputs);
        check_training(config, *inputs.train, inputs.val.get(), start.world.size());
        if (inputs.val && config.data.has_geography())
            inputs.geography = open_geography(config.data, config.data.val, inputs.val->info().sample_shape);
    });
    inputs.labels = require_same_data(start.world, *inputs.train,
                                      make_data ? SameLabels::by_settings : SameLabels::compared);
    if (inputs.val) require_same_data(start.world, *inputs.val);
    return inputs;
}

Config config_of_run(Config config, const Communicator& gradients) {
    config.distributed.strategy =
        chosen_strategy(config, gradients.size(), gradients.all_reduce_path() == ways::shared_memory);
    return config;
}

}  // namespace tutti
