#include "run_directory_metrics.hpp"

#include <nlohmann/json.hpp>

namespace tutti {
namespace {

using Json = nlohmann::json;

bool is_later(const Json& row, std::int64_t step) {
    if (!row.is_object() || !row.contains("step")) return false;
    const Json& value = row["step"];
    if (value.is_number_unsigned())
        return step < 0 || value.get<std::uint64_t>() > static_cast<std::uint64_t>(step);
    if (value.is_number_integer()) return value.get<std::int64_t>() > step;
    return value.is_number_float() && value.get<double>() > static_cast<double>(step);
}

}  // namespace

std::string keep_rows_up_to(std::string_view rows, std::int64_t step) {
    std::string kept;
    while (!rows.empty()) {
        const auto newline = rows.find('\n');
        if (newline == std::string_view::npos) break;  // cut off
        const std::string_view line = rows.substr(0, newline + 1);
        rows.remove_prefix(line.size());
        const Json row = Json::parse(line.begin(), line.end(), nullptr, false);
        if (row.is_discarded() && rows.empty()) break;
        if (!is_later(row, step)) kept += line;
    }
    return kept;
}

}  // namespace tutti
