#include "flag_remedy.hpp"

#include <algorithm>
#include <string_view>

#include "tutti/base/config.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/shell_word.hpp"
#include "tutti/base/suggest.hpp"

namespace tutti {
namespace {

constexpr std::string_view training = "trainer train";

/// A flag that others have, and here the key, or what to do.
struct Meaning {
    std::string_view flag, key;
    std::string_view advice = {};
    bool only_training = false;
};
constexpr std::string_view no_fp16 = "write train.precision=bf16 (there is no fp16)";
constexpr std::string_view in_epochs = "write schedule.warmup_epochs=…, in epochs, or a part of one";
constexpr std::string_view metrics =
    "leave it out: the metrics are in RUN_DIR/metrics.jsonl, one JSON object a line";
constexpr std::string_view evaluation = "evaluate with a command of its own: trainer eval --run RUN_DIR";
constexpr std::string_view ranks = "ranks are started by mpirun -np N, srun or jobs/run.sh -n N";

// Of PyTorch's examples, timm and others. As keys of a file some would be sections (optimizer: {lr: 0.1}),
// of which the config reader has a word of its own.
constexpr Meaning meanings[] = {
    {"--optimizer", "optim.name"},
    {"--opt", "optim.name"},
    {"--model", "model.name"},
    {"-a", "model.name"},
    {"--scheduler", "schedule.name"},
    {"--lr-scheduler", "schedule.name"},
    {"--sched", "schedule.name"},
    {"--warmup-steps", {}, in_epochs},
    {"--num-warmup-steps", {}, in_epochs},
    {"--warmup-iters", {}, in_epochs},
    {"--data", "data.train", {}, true},
    {"--data-path", "data.train", {}, true},
    {"--data-dir", "data.train", {}, true},
    {"--train-data", "data.train", {}, true},
    {"--val-data", "data.val", {}, true},
    {"-b", "train.batch_size"},
    {"-j", "data.workers"},
    {"-l", "run.log_level"},
    {"--amp", {}, no_fp16},
    {"--fp16", {}, no_fp16},
    {"--bf16", {}, "write train.precision=bf16"},
    {"--wandb", {}, metrics},
    {"--tensorboard", {}, metrics},
    {"--evaluate", {}, evaluation, true},
    {"--eval", {}, evaluation, true},
    {"-e", {}, evaluation, true},
    {"-n", {}, ranks},
    {"-np", {}, ranks},
};

bool is_taken(const std::string& setting) {
    try {
        parse_config("", training.data(), std::vector{setting});
        return true;
    } catch (const Error&) {
        return false;
    }
}

bool is_boolean(const std::string& path) {
    return std::ranges::any_of(config_reference(), [&](const ConfigKey& key) {
        return key.path == path && key.type == "true | false";
    });
}

/// "optim.name=adam", with … for a value that is not known, or that the key does not take.
std::string setting(const std::string& key, const std::string& value) {
    const std::string given = key + "=" + (value.empty() && is_boolean(key) ? "true" : value);
    return !value.empty() && !is_taken(given) ? key + "=…"
           : given.ends_with('=')             ? given + "…"
                                              : shell_word(given);
}

}  // namespace

std::string flag_remedy(const std::string& command, const std::string& flag, const std::string& value) {
    // Other commands have an option for where they read and write.
    const auto is_of_others = [&](const std::string& key) {
        return key.starts_with("run.") && command != training;
    };
    const auto write = [&](const std::string& key) { return "write " + setting(key, value); };
    if (const std::string key = key_written_as(flag); !key.empty() && !is_of_others(key)) return write(key);
    std::string leaf = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
    std::ranges::replace(leaf, '-', '_');
    // Here it is the form of the warm-up, elsewhere mostly its length.
    if (leaf == "warmup" && !is_taken("schedule.warmup=" + value)) return write("schedule.warmup_epochs");
    std::string keys;
    for (const ConfigKey& key : config_reference())
        if (key.path.substr(key.path.rfind('.') + 1) == leaf)
            keys += (keys.empty() ? "write " : " or ") + setting(key.path, value);
    if (!keys.empty()) return keys;
    for (const Meaning& one : meanings) {
        const bool is_it =
            one.flag.starts_with("--") ? same_but_for_spelling(one.flag, flag) : one.flag == flag;
        if (!is_it || (one.only_training && command != training)) continue;
        return one.key.empty() ? std::string(one.advice) : write(std::string(one.key));
    }
    const std::string key = key_called(leaf);
    return key.empty() || is_of_others(key) ? std::string() : write(key);
}

}  // namespace tutti
