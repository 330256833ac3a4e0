#pragma once
// The config and the data of a command that trains.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gradient_path.hpp"
#include "job_start.hpp"
#include "rank_placement.hpp"
#include "tutti/base/config.hpp"
#include "tutti/comm/gpu_communicator.hpp"
#include "tutti/device/device.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/input/geography.hpp"
#include "tutti/input/label_summary.hpp"

namespace tutti {

class OptionParser;

struct RecipeArguments {
    std::string config_path;
    std::vector<std::string> overrides;
    bool own_data = false;  ///< the command makes its data: data.train need not be set
    std::string doubt{};    ///< what rank 0 is to warn of before it trains; empty: nothing
};

/// -c and key=value.
void add_recipe_options(OptionParser& parser, RecipeArguments& arguments);

/// UsageError for what the config alone refuses on `world` ranks. own_data: as in RecipeArguments.
void check_strategy(const Config& config, int world, bool own_data);
/// UsageError where the best checkpoint is to be kept, but nothing is there to evaluate on.
void check_best(const Config& config);

/// What -c and the overrides say; without -c the quick-start recipe. Collective; throws AgreedError.
Config read_training_config(const JobStart& start, const RecipeArguments& arguments);

struct TrainingInputs {
    std::vector<RankPlace> places;  ///< of all ranks
    std::unique_ptr<Device> device;
    std::optional<GpuEntries> gpu;  ///< see SelectedDevice
    std::unique_ptr<Dataset> train;
    std::unique_ptr<Dataset> val;        ///< null without data.val, or when not asked for
    std::optional<Geography> geography;  ///< of `val`, where data.latitudes is given
    LabelSummary labels;                 ///< of `train`; empty where the command makes its data
};

/// Places the ranks and opens device and data, which then fit the config (check_training). For a `whole_run`
/// with data.val, and files of which it reads few samples are not brought into memory; else the epochs and
/// steps of the config say nothing. Collective; throws AgreedError. `make_data`: what to train on instead of
/// data.train.
TrainingInputs open_training(const JobStart& start, const Config& config, bool whole_run,
                             const std::function<std::unique_ptr<Dataset>()>& make_data = {});

/// The config with what `auto` stands for once it is known what carries the gradients (chosen_strategy).
/// The config that is written down stays the given one.
Config config_of_run(Config config, const Communicator& gradients);

}  // namespace tutti
