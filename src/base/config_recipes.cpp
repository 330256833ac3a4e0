// Kinds of values that are small maps of settings: the moving average of the weights, early stopping;
// and the names of losses.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "config_values.hpp"
#include "tutti/base/lower_case.hpp"
#include "tutti/base/ranking_metric_names.hpp"
#include "tutti/base/shell_word.hpp"

namespace tutti::config {
namespace {

/// One key of a small map: reads its value.
using Field = std::function<void(const Setting&)>;

/// Reads a map with the given keys; each may be left out.
void read_map(const Setting& setting, const std::map<std::string, Field>& fields) {
    const std::string remedy = "write " + whole_form(setting.path, setting.where);
    std::vector<std::string> names;
    for (const auto& [name, field] : fields) names.push_back(name);
    if (!setting.node.IsMap()) setting.wrong("a map of " + join(names, ", "), remedy);
    std::vector<std::string> seen;
    for (const auto& entry : setting.node) {
        const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "a key that is not text";
        const auto field = fields.find(key);
        if (field == fields.end()) setting.no_key(key, names, remedy);
        for (const std::string& before : seen)
            if (before == key) setting.fail(key + " is given twice", "keep one of them");
        seen.push_back(key);
        field->second({setting.path + "." + key, setting.where, entry.second});
    }
}

std::vector<Choice<std::string>> validation_metric_words() {
    std::vector<Choice<std::string>> words;
    for (const char* name : validation_metrics) words.push_back({name, name});
    for (const char* name : ranking_metrics) words.push_back({name, name});
    return words;
}

Kind<std::string> validation_metric() {
    return choice(validation_metric_words());
}

EmaConfig parse_ema(const Setting& setting) {
    static constexpr Range fraction{.low = 0, .high = 1, .high_open = true};
    EmaConfig result;
    if (bool wanted = false; setting.node.IsScalar() && YAML::convert<bool>::decode(setting.node, wanted))
        setting.wrong("a map of decay, warmup",
                      wanted ? "write " + whole_form(setting.path, setting.where) : "write null for none");
    if (setting.node.IsScalar()) {  // the short form: 0.999
        result.decay = number(fraction).parse(setting);
        return result;
    }
    read_map(setting, {{"decay", [&](const Setting& given) { result.decay = number(fraction).parse(given); }},
                       {"warmup", [&](const Setting& given) { result.warmup = boolean().parse(given); }}});
    return result;
}

EarlyStoppingConfig parse_early_stopping(const Setting& setting) {
    EarlyStoppingConfig result;
    read_map(
        setting,
        {{"metric", [&](const Setting& given) { result.metric = validation_metric().parse(given); }},
         {"patience", [&](const Setting& given) { result.patience = integer(1).parse(given); }},
         {"min_delta", [&](const Setting& given) { result.min_delta = number({.low = 0}).parse(given); }}});
    return result;
}

}  // namespace

std::string whole_form(const std::string& path, const std::string& where) {
    static const std::map<std::string, std::string> examples{
        {"data.normalize", "{mean: [0.5], std: [0.25]}"},
        {"data.transforms", "[horizontal_flip, {random_crop: {size: 32, padding: 4}}]"},
        {"model.layers", "[{linear: {out: 64}}, relu, {linear: {out: 10}}]"},
        {"train.class_weights", "[1, 2.5]"},
        {"train.early_stopping", "{metric: val/loss, patience: 3}"},
        {"train.ema", "{decay: 0.999}"}};
    const auto found = examples.find(path);
    if (found == examples.end()) return {};
    const std::size_t dot = path.find('.');
    return where == Setting::command_line
               ? shell_word(path + "=" + found->second)
               : path.substr(0, dot) + ": {" + path.substr(dot + 1) + ": " + found->second + "}";
}

Kind<std::string> best_metric() {
    std::vector<Choice<std::string>> words = validation_metric_words();
    words.push_back({"null", ""});
    return choice(words);
}

Kind<ClassWeightsConfig> class_weights() {
    const auto list = list_of(number({.low = 0}));
    return {"balanced | " + list.type,
            [=](const Setting& setting) -> ClassWeightsConfig {
                if (setting.node.IsScalar()) {
                    choose(setting, {"balanced", "null"});
                    return {};
                }
                std::vector<double> weights = list.parse(setting);
                if (weights.empty()) setting.fail("the list is empty", "give a weight for each class");
                if (std::ranges::none_of(weights, [](double weight) { return weight > 0; }))
                    setting.fail("all weights are 0", "give a class that is to be learned a weight above 0");
                return {std::move(weights)};
            },
            [=](const ClassWeightsConfig& value) {
                return value.weights.empty() ? "balanced" : list.print(value.weights);
            }};
}

std::string warm_up_remedy(const YAML::Node& node) {
    double length = 0;
    if (!node.IsScalar() || !YAML::convert<double>::decode(node, length)) return {};
    return "for the length of the warm-up write schedule.warmup_epochs=" + node.Scalar();
}

Kind<WarmUp> warm_up() {
    Kind<WarmUp> kind = choice<WarmUp>({{"linear", WarmUp::linear}, {"power", WarmUp::power}});
    kind.parse = [parse = kind.parse](const Setting& setting) {
        if (const std::string remedy = warm_up_remedy(setting.node); !remedy.empty())
            setting.wrong("one of linear, power", remedy);
        return parse(setting);
    };
    return kind;
}

Kind<EmaConfig> ema() {
    return {"{decay: number, warmup: true | false}", parse_ema, [](const EmaConfig& value) {
                return fmt::format("{{decay: {}, warmup: {}}}", value.decay, value.warmup);
            }};
}

Kind<LossChoice> loss() {
    Kind<LossChoice> kind = choice<LossChoice>({{"auto", LossChoice::automatic},
                                                {"cross_entropy", LossChoice::cross_entropy},
                                                {"mse", LossChoice::mse},
                                                {"l1", LossChoice::l1},
                                                {"huber", LossChoice::huber},
                                                {"reconstruction", LossChoice::reconstruction},
                                                {"location", LossChoice::location},
                                                {"segments", LossChoice::segments}});
    kind.parse = [parse = kind.parse](const Setting& setting) {
        const std::string given = setting.node.IsScalar() ? lower_case(setting.node.Scalar()) : "";
        if (given.starts_with("bce") || given.starts_with("binary"))
            setting.fail(setting.shown() + " is not there: a sample has one class, not several labels",
                         "for two classes use cross_entropy");
        return parse(setting);
    };
    return kind;
}

Kind<EarlyStoppingConfig> early_stopping() {
    return {"{metric: " + validation_metric().type + ", patience: integer, min_delta: number}",
            parse_early_stopping, [](const EarlyStoppingConfig& value) {
                return fmt::format("{{metric: {}, patience: {}, min_delta: {}}}", quoted_scalar(value.metric),
                                   value.patience, value.min_delta);
            }};
}

}  // namespace tutti::config
