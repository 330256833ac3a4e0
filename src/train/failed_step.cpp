#include "tutti/train/failed_step.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tutti/base/error.hpp"
#include "tutti/base/json_input.hpp"

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
    if (std::isfinite(value)) return value;
    if (std::isnan(value)) return "nan";
    return value > 0 ? "inf" : "-inf";
}

double number(const Json& value) {
    if (!value.is_string()) return value.get<double>();
    const auto text = value.get<std::string>();
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (text != "inf" && text != "-inf") throw std::invalid_argument("'" + text + "' is not a number");
    return text == "inf" ? infinity : -infinity;
}

}  // namespace

std::string to_json(const FailedStep& failed) {
    Json ranks = Json::array();
    for (const LossSums& rank : failed.ranks)
        ranks.push_back({{"loss_sum", number(rank.loss)}, {"weight", number(rank.weight)}});
    return Json{{"step", failed.step},
                {"epoch", failed.epoch},
                {"begin", failed.begin},
                {"end", failed.end},
                {"samples", failed.samples},
                {"ranks", std::move(ranks)},
                {"gradient_norm", number(failed.gradient_norm)}}
        .dump();
}

FailedStep parse_failed_step(const std::string& json, const std::string& source) {
    FailedStep failed;
    try {
        const Json row = parse_json<Json>(json);
        failed.step = row.at("step").get<std::int64_t>();
        failed.epoch = row.at("epoch").get<std::int64_t>();
        failed.begin = row.at("begin").get<std::int64_t>();
        failed.end = row.at("end").get<std::int64_t>();
        failed.samples = row.at("samples").get<std::int64_t>();
        failed.gradient_norm = number(row.at("gradient_norm"));
        for (const Json& rank : row.at("ranks"))
            failed.ranks.push_back({number(rank.at("loss_sum")), number(rank.at("weight")), 0});
        if (failed.ranks.empty() || failed.begin < 0 || failed.end <= failed.begin)
            throw std::invalid_argument("it names no ranks or no samples");
    } catch (const std::exception& error) {
        throw DataError(source + ": its failed step cannot be read: " + json_problem(error.what()),
                        "use the version of the program that wrote it");
    }
    return failed;
}

}  // namespace tutti
