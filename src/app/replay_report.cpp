#include "replay_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tutti/base/json_text.hpp"

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;
using Where = NonFinite::Where;

constexpr std::size_t shown_samples = 10;

std::string text(double value) {
    return std::isnan(value) ? "nan" : fmt::format("{:.6g}", value);
}

Json json(double value) {
    if (std::isfinite(value)) return value;
    return text(value);
}

bool has_samples(const LossSums& sums) {
    return !(sums.weight == 0);
}
double mean(const LossSums& sums) {
    return sums.loss / sums.weight;
}

std::string text(const LossSums& sums) {
    return has_samples(sums) ? text(mean(sums)) : "no samples";
}
Json json(const LossSums& sums) {
    return has_samples(sums) ? json(mean(sums)) : Json();
}

const char* word(Where where) {
    switch (where) {
        case Where::parameter:
            return "parameter";
        case Where::samples:
            return "samples";
        case Where::output:
            return "output";
        case Where::loss:
            return "loss";
        case Where::gradient:
            return "gradient";
        case Where::gradient_sum:
            return "gradient_sum";
    }
    return "";
}

std::string text(const NonFinite& first) {
    const std::string values = fmt::format("{} of {} values", first.count, first.of);
    const std::string rank = first.rank ? fmt::format(", of rank {}'s samples", *first.rank) : "";
    switch (first.where) {
        case Where::parameter:
            return fmt::format(
                "parameter {}, before the step: {}; an update before it went too far: lower "
                "optim.lr or set optim.clip_norm",
                first.name, values);
        case Where::samples:
            return fmt::format("the samples themselves, as the model gets them: {}{}", values, rank);
        case Where::output:
            return fmt::format("the output of layer {}, {}{}({}): {}{}", first.layer + 1, first.name,
                               first.name.empty() ? "" : " ", first.kind, values, rank);
        case Where::loss:
            return "the loss itself: all layers' outputs are finite" + rank;
        case Where::gradient:
            return fmt::format("the gradient of {}: {}{}", first.name, values, rank);
        case Where::gradient_sum:
            return fmt::format("the gradient of {}, summed over the ranks: {}", first.name, values);
    }
    return {};
}

}  // namespace

std::string to_json(const ReplayReport& report) {
    const FailedStep& failed = report.recorded;
    const FailedStepReplay& now = report.now;
    Json ranks = Json::array(), samples = Json::array(), first;
    for (std::size_t r = 0; r < failed.ranks.size(); ++r)
        ranks.push_back(
            {{"rank", r}, {"recorded_loss", json(failed.ranks[r])}, {"loss", json(now.ranks.at(r))}});
    for (const NonFiniteSample& one : now.samples)
        samples.push_back(
            {{"rank", one.rank}, {"position", one.position}, {"index", one.index}, {"loss", json(one.loss)}});
    if (now.first)
        first = {{"where", word(now.first->where)},
                 {"name", now.first->name},
                 {"kind", now.first->kind},
                 {"layer", now.first->layer < 0 ? Json() : Json(now.first->layer)},
                 {"count", now.first->count},
                 {"of", now.first->of},
                 {"rank", now.first->rank ? Json(*now.first->rank) : Json()}};
    const Json document{{"file", report.file},
                        {"data", report.data},
                        {"device", report.device},
                        {"step", failed.step},
                        {"epoch", failed.epoch},
                        {"begin", failed.begin},
                        {"end", failed.end},
                        {"world_size", failed.ranks.size()},
                        {"reproduced", now.first.has_value()},
                        {"ranks", std::move(ranks)},
                        {"first", std::move(first)},
                        {"samples", std::move(samples)},
                        {"gradient_norm", json(now.gradient_norm)}};
    return json_text(document, 1) + "\n";
}

std::string to_text(const ReplayReport& report) {
    const FailedStep& failed = report.recorded;
    const FailedStepReplay& now = report.now;
    std::string out = fmt::format(
        "{}: step {} (epoch {}), positions {} to {} of its order, recorded on {} {}\n"
        "on {}, data {}\n\n  rank  recorded loss  loss now\n",
        report.file, failed.step, failed.epoch + 1, failed.begin, failed.end - 1, failed.ranks.size(),
        failed.ranks.size() == 1 ? "rank" : "ranks", report.device, report.data);
    for (std::size_t r = 0; r < failed.ranks.size(); ++r)
        out += fmt::format("  {:>4}  {:>13}  {:>8}\n", r, text(failed.ranks[r]), text(now.ranks.at(r)));
    out += "\n";
    if (!now.samples.empty()) {
        out += fmt::format("samples whose own loss is not finite: {}\n", now.samples.size());
        for (std::size_t i = 0; i < std::min(now.samples.size(), shown_samples); ++i) {
            const NonFiniteSample& one = now.samples[i];
            out += fmt::format("  sample {} of the data (position {}, rank {}): loss {}\n", one.index,
                               one.position, one.rank, text(one.loss));
        }
        if (now.samples.size() > shown_samples)
            out += fmt::format("  and {} others (--json has all)\n", now.samples.size() - shown_samples);
    }
    if (now.first) return out + "the first that is not finite: " + text(*now.first) + "\n";
    // Losses and norm were finite in the run, too: what was not is a square (TrainStep::squares_overflow).
    if (std::isfinite(failed.gradient_norm) &&
        std::ranges::all_of(failed.ranks, [](const LossSums& one) { return std::isfinite(one.loss); }))
        return out + fmt::format(
                         "all is finite, as in the run; the square of the gradient's norm ({}), which its "
                         "optimizer takes, is not, in fp32\n",
                         text(now.gradient_norm));
    return out + fmt::format(
                     "all is finite here (norm of the gradient: {}): other hardware, libraries, threads "
                     "or settings than in the run\n",
                     text(now.gradient_norm));
}

}  // namespace tutti
