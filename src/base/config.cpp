#include "tutti/base/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "config_schema.hpp"
#include "config_settings.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/lower_case.hpp"

namespace tutti {
namespace {

using config::Row;
using config::Setting;
using config::Settings;

/// A null model key is a key that is not given: this is how the resolved dump says "the data set's".
const Setting* given(const Settings& settings, const Row& row) {
    const Setting* const setting = settings.find(row.path);
    return setting && config::in_section(row, "model") && setting->node.IsNull() ? nullptr : setting;
}

/// "remove it, or use mlp or lenet, which know it". Who chooses another model, optimizer or schedule behind
/// the command need not change the file, and cannot where it is the built-in recipe: "give optim.momentum=0,
/// too, or ...".
std::string owners_remedy(const Row& row, const Setting& setting, const Settings& settings) {
    const std::string section = row.path.substr(0, row.path.find('.'));
    const Setting* const chosen = settings.find(section + ".name");
    // Other trainers' files name no model: theirs is their program's.
    if (const std::string familiar = settings.familiar_name(row.path); !chosen && !familiar.empty())
        return fmt::format("{} means it, and {}.name is not given: set it to {}, which know{} it", familiar,
                           section, config::join(row.owners, " or "), row.owners.size() == 1 ? "s" : "");
    const bool behind_command =
        chosen && chosen->where == Setting::command_line && setting.where != chosen->where;
    return fmt::format("{}, or use {}, which know{} it",
                       behind_command ? fmt::format("give {}={}, too", row.path,
                                                    section == "model" ? "null" : row.print(Config{}))
                                      : "remove it",
                       config::join(row.owners, " or "), row.owners.size() == 1 ? "s" : "");
}

/// Keys of another model are errors, whatever their value; keys of another optimizer or schedule only when
/// they are set to something else than the default, because the resolved dump holds all of them.
void check_owner(const Row& row, const Setting& setting, const Settings& settings, const std::string& model,
                 const Config& config) {
    const auto remedy = [&] { return owners_remedy(row, setting, settings); };
    if (config::in_section(row, "model") && !config::knows(row, model))
        setting.fail(model == config::layers_model
                         ? "a model that is given by its layers does not know this key"
                         : fmt::format("the model {} does not know this key", model),
                     remedy());
    const bool is_default = row.print(config) == row.print(Config{});
    if (config::in_section(row, "optim") && !config::knows(row, config.optim.name) && !is_default)
        setting.fail(fmt::format("{} is not a key of the optimizer {}", setting.shown(), config.optim.name),
                     remedy());
    if (config::in_section(row, "schedule") && !config::knows(row, config.schedule.name) && !is_default)
        setting.fail(fmt::format("{} is not a key of the schedule {}", setting.shown(), config.schedule.name),
                     remedy());
}

/// What is not given has the default of the optimizer: PyTorch's, and timm's for lamb.
void set_optimizer_defaults(OptimConfig& optim, const Settings& settings) {
    const auto is_given = [&](const char* path) { return settings.find(path) != nullptr; };
    if ((optim.name == "adamw" || optim.name == "lamb") && !is_given("optim.weight_decay"))
        optim.weight_decay = 0.01;
    if ((optim.name == "adadelta" || optim.name == "lamb") && !is_given("optim.eps")) optim.eps = 1e-6;
    if (!is_given("optim.lr")) {
        if (optim.name == "adadelta") optim.lr = 1;
        if (optim.name == "adam" || optim.name == "adamw" || optim.name == "lamb") optim.lr = 1e-3;
    }
}

/// What is not given of a clip's transformer is VideoMAE's ViT-S/16, of a sequence's what Repurpose has.
void set_model_defaults(ModelConfig& model, const Settings& settings) {
    const auto set = [&](const char* path, std::int64_t& value, std::int64_t usual) {
        if (settings.find(path) == nullptr) value = usual;
    };
    if (model.name == "temporal_transformer") {
        set("model.dim", model.dim, 512);
        set("model.depth", model.depth, model.fusion == "cross" ? 3 : 16);
        set("model.heads", model.heads, 8);
    }
    if (!model.name.starts_with("videomae")) return;
    set("model.patch", model.patch, 16);
    set("model.dim", model.dim, 384);
    set("model.depth", model.depth, 12);
    set("model.heads", model.heads, 6);
}

/// A model that has one loss, which other models have not.
struct OwnLoss {
    const char *model, *loss, *says, *only;
    LossChoice choice;
};
constexpr OwnLoss own_losses[] = {
    {"videomae_pretrain", "reconstruction", "says hidden pixels", "hides anything",
     LossChoice::reconstruction},
    {"locator", "location", "says presence and place", "says places", LossChoice::location},
    {"temporal_transformer", "segments", "says segments", "says segments", LossChoice::segments}};

void set_loss_of_model(Config& config, const Settings& settings) {
    LossChoice& loss = config.train.loss;
    for (const OwnLoss& own : own_losses) {
        const bool is_its = config.model.name == own.model;
        if (is_its && loss == LossChoice::automatic) loss = own.choice;
        if (is_its && loss != own.choice)
            settings.find("train.loss")
                ->fail(fmt::format("the model {} {}, and nothing else", own.model, own.says),
                       fmt::format("set train.loss to {} or auto", own.loss));
        if (!is_its && loss == own.choice)
            settings.find("train.loss")
                ->fail(fmt::format("only the model {} {}", own.model, own.only),
                       fmt::format("set train.loss to auto, or model.name to {}", own.model));
        if (is_its && config.model.classes)
            settings.find("model.classes")
                ->fail(fmt::format("the model {} {}, and no classes", own.model, own.says), "remove it");
    }
    if (loss == LossChoice::location && config.train.heatmap_weight == 0 && config.train.presence_weight == 0)
        settings.find("train.presence_weight")
            ->fail("train.heatmap_weight is 0, too: nothing would be learned", "give one of them a weight");
    if (loss == LossChoice::segments && config.train.focal_weight == 0 && config.train.offset_weight == 0)
        settings.find("train.offset_weight")
            ->fail("train.focal_weight is 0, too: nothing would be learned", "give one of them a weight");
    const SegmentsConfig& segments = config.train.segments;
    if (segments.shortest > segments.longest) {
        const Setting* const longest = settings.find("train.segments.longest");
        (longest ? longest : settings.find("train.segments.shortest"))
            ->fail(fmt::format("train.segments.shortest {} is above longest {}", segments.shortest,
                               segments.longest),
                   "let shortest be at most longest");
    }
}

/// Metrics that are asked for must be measured.
void check_validation(const Config& config, const Settings& settings) {
    const TrainConfig& train = config.train;
    const bool top5 = !train.topk || *train.topk == 5;
    if (train.checkpoint.best == "val/top5" && !top5)
        settings.find("train.checkpoint.best")
            ->fail(fmt::format("train.topk is {}", *train.topk), "set train.topk to 5 or auto");
    if (!train.early_stopping) return;
    const Setting& stopping = *settings.find("train.early_stopping");
    if (train.early_stopping->metric == "val/top5" && !top5)
        stopping.fail(fmt::format("train.topk is {}", *train.topk), "set train.topk to 5 or auto");
    if (config.data.val.empty()) stopping.fail("there are no data to evaluate on", "set data.val");
    if (train.eval_every.count == 0)
        stopping.fail("there is no evaluation before the end", "set train.eval_every to 1 or more");
}

/// How gradients travel, against what they are to be.
void check_compression(const Config& config, const Settings& settings) {
    if (config.distributed.compress == Compress::none) return;
    const Setting& compress = *settings.find("distributed.compress");
    if (config.train.precision == Precision::fp64)
        compress.fail("train.precision is fp64, which is for results without such roundings",
                      "set distributed.compress: none, or another train.precision");
}

void check_schedule(const Config& config, const Settings& settings) {
    if (config.schedule.name == "multi_step" && config.schedule.milestones.empty())
        settings.find("schedule.name")
            ->fail("multi_step has no milestones",
                   "set schedule.milestones to the epochs behind which the rate falls, as in [30, 60, 80]");
}

/// What a key alone cannot tell.
void check_combinations(const Config& config, const Settings& settings) {
    if (config.train.scale_lr_by_world_size && config.train.scale_lr_by_batch)
        settings.find("train.scale_lr_by_batch")
            ->fail("train.scale_lr_by_world_size is true, and the ranks would count twice",
                   "remove one of them");
    if (!config.model.freeze.empty() && !config.model.freeze_except.empty())
        settings.find("model.freeze_except")->fail("given together with model.freeze", "remove one of them");
    if (config.model.freeze_statistics && config.model.freeze.empty() && config.model.freeze_except.empty())
        settings.find("model.freeze_statistics")
            ->fail("no weights are frozen", "name batch norms, or layers that have some, in model.freeze");
    check_schedule(config, settings);
    check_validation(config, settings);
    check_compression(config, settings);
    if (!config.optim.nesterov) return;
    const Setting& nesterov = *settings.find("optim.nesterov");
    if (config.optim.momentum <= 0)
        nesterov.fail("Nesterov's form needs momentum", "set optim.momentum, for example to 0.9");
    if (config.optim.dampening != 0)
        nesterov.fail("Nesterov's form allows no dampening", "set optim.dampening to 0");
}

/// The model's name as rows list it: of what is given, before anything is checked.
std::string choose_model(const Settings& settings) {
    const Setting* const name = given(settings, *config::find_row("model.name"));
    const Setting* const layers = given(settings, *config::find_row("model.layers"));
    if (name && layers)
        layers->fail("given together with model.name",
                     "remove one of them, for example with model.name=null");
    if (layers) return config::layers_model;
    return name && name->node.IsScalar() ? lower_case(name->node.Scalar()) : "mlp";
}

Config resolve(const Settings& settings, const std::string& source) {
    Config result;
    const std::string model = choose_model(settings);
    if (model != config::layers_model) result.model.name = model;
    for (const Row& row : config::rows()) {
        const Setting* const setting = given(settings, row);
        if (!setting) continue;
        row.set(*setting, result);
        check_owner(row, *setting, settings, model, result);
    }
    set_optimizer_defaults(result.optim, settings);
    set_model_defaults(result.model, settings);
    set_loss_of_model(result, settings);
    if (result.run.dir.empty()) result.run.dir = "runs/" + std::filesystem::path(source).stem().string();
    check_combinations(result, settings);
    return result;
}

/// Lines for the sections that `path` enters and `previous` was not in.
std::string section_headers(const std::string& path, const std::string& previous) {
    std::string lines;
    std::size_t depth = 0;
    for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1), ++depth) {
        const std::string section = path.substr(0, dot);
        if (previous.starts_with(section + ".")) continue;
        lines += fmt::format("{:{}}{}:\n", "", 2 * depth, section.substr(section.rfind('.') + 1));
    }
    return lines;
}

}  // namespace

Config parse_config(std::string_view yaml_text, const std::string& source,
                    std::span<const std::string> overrides) {
    Settings settings(yaml_text, source);
    for (const std::string& argument : overrides) settings.override_with(argument);
    settings.refuse_lists();
    return resolve(settings, source);
}

std::string doubt_about_translation(std::string_view yaml_text, const std::string& source,
                                    std::span<const std::string> overrides) {
    Settings settings(yaml_text, source);
    const std::vector<std::string> names = settings.familiar_names();
    for (const std::string& argument : overrides) settings.override_with(argument);
    const auto is_given = [&](const char* key) { return given(settings, *config::find_row(key)) != nullptr; };
    std::vector<std::string> missing;
    if (!is_given("model.name") && !is_given("model.layers"))
        missing.push_back("model.name, which is " + choose_model(settings));
    if (!is_given("optim.name")) missing.push_back("optim.name, which is " + Config().optim.name);
    // A warm-up, of what follows it nothing: theirs has one schedule, which it does not name.
    const bool has_schedule = std::ranges::any_of(config::rows(), [&](const Row& row) {
        return config::in_section(row, "schedule") && given(settings, row) != nullptr;
    });
    if (has_schedule && !is_given("schedule.name"))
        missing.push_back("schedule.name, which is " + Config().schedule.name);
    if (names.empty() || missing.empty()) return {};
    return fmt::format("{} has keys of another trainer ({}), but does not set {}", source,
                       config::join(names, ", "), config::join(missing, ", and "));
}

Config load_config(const std::string& path, std::span<const std::string> overrides) {
    return parse_config(read_config_text(path), path, overrides);
}

std::string to_yaml(const Config& config) {
    std::string yaml, previous;
    const std::string model = config::model_of(config);
    for (const Row& row : config::rows()) {
        if (config::in_section(row, "model") && !config::knows(row, model)) continue;
        yaml += section_headers(row.path, previous);
        const auto depth = static_cast<std::size_t>(std::count(row.path.begin(), row.path.end(), '.'));
        yaml += fmt::format("{:{}}{}: {}\n", "", 2 * depth, row.path.substr(row.path.rfind('.') + 1),
                            row.print(config));
        previous = row.path;
    }
    return yaml;
}

std::vector<ConfigKey> config_reference() {
    std::vector<ConfigKey> keys;
    for (const Row& row : config::rows()) {
        std::string help = row.help;
        if (!row.owners.empty()) help += fmt::format(" ({})", config::join(row.owners, ", "));
        keys.push_back({row.path, row.type, row.default_text, help});
    }
    return keys;
}

std::string key_written_as(std::string_view text) {
    const auto letters_of = [](std::string_view path) {
        std::string letters;
        for (const char c : path)
            if (std::isalnum(static_cast<unsigned char>(c)))
                letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        return letters;
    };
    const std::string given = letters_of(text);
    for (const Row& row : config::rows())
        if (letters_of(row.path) == given) return row.path;
    return {};
}

}  // namespace tutti
