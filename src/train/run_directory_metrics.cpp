#include "run_directory_metrics.hpp"

#include <nlohmann/json.hpp>

#include "tutti/base/json_input.hpp"

namespace tutti {
namespace {

bool is_later(const nlohmann::json& row, std::int64_t step) {
    if (!row.is_object() || !row.contains("step")) return false;
    const nlohmann::json& value = row["step"];
    if (value.is_number_unsigned())
        return step < 0 || value.get<std::uint64_t>() > static_cast<std::uint64_t>(step);
    if (value.is_number_integer()) return value.get<std::int64_t>() > step;
    return value.is_number_float() && value.get<double>() > static_cast<double>(step);
}

bool is_made_again(const nlohmann::json& row, const MetricsEnd& end) {
    if (!row.is_object() || row.value("step", nlohmann::json()) != end.step) return false;
    const nlohmann::json type = row.value("type", nlohmann::json()),
                         epoch = row.value("epoch", nlohmann::json());
    // Rows of epochs have no type.
    if (!row.contains("type")) return epoch.is_number() && epoch > end.epochs;
    return type == "eval" && !end.evaluated;
}

}  // namespace

std::string keep_rows_up_to(std::string_view rows, const MetricsEnd& end) {
    std::string kept;
    while (!rows.empty()) {
        const auto newline = rows.find('\n');
        if (newline == std::string_view::npos) break;  // cut off
        const std::string_view line = rows.substr(0, newline + 1);
        rows.remove_prefix(line.size());
        const nlohmann::json row = json_or_discarded<nlohmann::json>(line);
        if (row.is_discarded() && rows.empty()) break;
        if (!is_later(row, end.step) && !is_made_again(row, end)) kept += line;
    }
    return kept;
}

}  // namespace tutti
