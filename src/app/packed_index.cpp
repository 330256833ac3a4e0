#include "packed_index.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <utility>

#include "option_parser.hpp"
#include "output_file.hpp"
#include "tutti/base/csv_field.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/report_file.hpp"

namespace tutti {

void PackedIndex::add_option(OptionParser& parser, std::vector<std::string> columns,
                             const std::string& more) {
    columns_ = std::move(columns);
    parser.add_option("--index", path_,
                      fmt::format("also write a CSV file, index,{}: where each sample comes from, to join "
                                  "predictions with{}",
                                  fmt::join(columns_, ","), more));
}

void PackedIndex::add_columns(const std::vector<std::string>& columns) {
    columns_.insert(columns_.end(), columns.begin(), columns.end());
}

void PackedIndex::prepare(const std::string& output, const std::string& table) const {
    if (path_.empty()) return;
    std::error_code missing;
    if (path_ == output || std::filesystem::equivalent(path_, output, missing))
        throw UsageError("--index " + path_ + " is the file that -o names", "give another name");
    if (path_ == table || std::filesystem::equivalent(path_, table, missing))
        throw UsageError("--index " + path_ + " is the table that is packed", "give another name");
    if (!path_.ends_with(".csv"))
        throw UsageError("--index " + path_ + " is no name of a CSV file", "end it with .csv");
    prepare_output(path_, "--index");
}

PackedFrom PackedIndex::note() {
    if (path_.empty()) return {};
    text_ = fmt::format("index,{}\n", fmt::join(columns_, ","));
    return [this](const std::vector<std::string>& where) {
        text_ += std::to_string(count_++);
        for (const std::string& part : where) text_ += "," + csv_field(part);
        text_ += "\n";
    };
}

void PackedIndex::write() const {
    if (!path_.empty()) write_report(path_, text_);
}

}  // namespace tutti
