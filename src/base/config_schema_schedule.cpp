#include <string>
#include <vector>

#include "config_row.hpp"
#include "config_schema_parts.hpp"

namespace tutti::config {
namespace {

/// Epochs, each after the one before.
Kind<std::vector<std::int64_t>> milestones() {
    Kind<std::vector<std::int64_t>> kind = list_of(integer(1));
    kind.parse = [parse = kind.parse](const Setting& setting) {
        const std::vector<std::int64_t> epochs = parse(setting);
        for (std::size_t i = 1; i < epochs.size(); ++i)
            if (epochs[i] <= epochs[i - 1])
                setting.fail(std::to_string(epochs[i]) + " comes behind " + std::to_string(epochs[i - 1]),
                             "give epochs in ascending order, each once");
        return epochs;
    };
    return kind;
}

}  // namespace

void add_schedule(std::vector<Row>& rows) {
    using S = ScheduleConfig;
    const auto schedule = &Config::schedule;
    const Range not_negative{.low = 0};
    const Range positive{.low = 0, .low_open = true};
    const auto names = choice<std::string>({{"constant", "constant"},
                                            {"step", "step"},
                                            {"multi_step", "multi_step"},
                                            {"linear", "linear"},
                                            {"cosine", "cosine"}});
    rows.insert(
        rows.end(),
        {
            row("schedule.name", at(schedule, &S::name), names,
                "course of the learning rate: step multiplies it by gamma every step_size epochs, multi_step "
                "at each of milestones; linear and cosine lower it each update until train.epochs"),
            row("schedule.warmup_epochs", at(schedule, &S::warmup_epochs), number(not_negative),
                "epochs, or a part of one, in which the learning rate rises from warmup_lr; a warning "
                "says so where the run ends before"),
            row("schedule.warmup_lr", at(schedule, &S::warmup_lr), number(not_negative),
                "learning rate at the beginning of the warm-up"),
            row("schedule.warmup", at(schedule, &S::warmup), warm_up(),
                "how it rises: linear, or as a power of the time"),
            row("schedule.warmup_power", at(schedule, &S::warmup_power), number(positive),
                "exponent of the power-law warm-up"),
            only({"cosine", "linear"}, row("schedule.min_lr", at(schedule, &S::min_lr), number(not_negative),
                                           "learning rate at the end of train.epochs")),
            only({"step"},
                 row("schedule.step_size", at(schedule, &S::step_size), integer(1), "epochs between steps")),
            only({"step", "multi_step"},
                 row("schedule.gamma", at(schedule, &S::gamma), number(not_negative), "factor of each step")),
            only({"multi_step"},
                 row("schedule.milestones", at(schedule, &S::milestones), milestones(),
                     "finished epochs, ascending, behind each of which a step comes: [30, 60, 80]")),
        });
}

}  // namespace tutti::config
