#include "packed_index.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "option_parser.hpp"
#include "output_file.hpp"
#include "tutti/base/csv_field.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/report_file.hpp"

namespace tutti {
namespace {

/// Whether it begins as the index of a packer does.
bool is_index(const std::string& path) {
    std::string line;
    std::getline(std::ifstream(path), line);
    if (line.ends_with('\r')) line.pop_back();
    return line == "index,path" || line == "index,path,start,end" || line == "index,id,second" ||
           line == "index,line";
}

}  // namespace

void PackedIndex::add_option(OptionParser& parser, std::vector<std::string> columns,
                             const std::string& more) {
    columns_ = std::move(columns);
    parser.add_path("--index", path_,
                    fmt::format("also write a CSV file, index,{}: where each sample comes from, to join "
                                "predictions with{}",
                                fmt::join(columns_, ","), more));
}

void PackedIndex::add_columns(const std::vector<std::string>& columns) {
    columns_.insert(columns_.end(), columns.begin(), columns.end());
}

void PackedIndex::prepare(const std::string& output, const std::string& table) {
    output_ = output;
    if (path_.empty()) return;
    std::error_code missing;
    if (path_ == output || std::filesystem::equivalent(path_, output, missing))
        throw UsageError("--index " + path_ + " is the file that -o names", "give another name");
    if (path_ == table || std::filesystem::equivalent(path_, table, missing))
        throw UsageError("--index " + path_ + " is the table that is packed", "give another name");
    if (!path_.ends_with(".csv"))
        throw UsageError("--index " + path_ + " is no name of a CSV file", "end it with .csv");
    if (std::filesystem::is_regular_file(path_, missing) && std::filesystem::file_size(path_, missing) > 0 &&
        !is_index(path_))
        throw UsageError("--index " + path_ + " would overwrite a file that is no index of a packer",
                         "give another name, or delete that file first");
    path_ = prepare_output(path_, "--index");
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
    if (path_.empty()) return;
    try {
        write_report(path_, text_);
    } catch (const RunError& error) {
        throw RunError(output_ + " is packed as a whole, but not its index: " + error.what());
    }
}

}  // namespace tutti
