#include "loader_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "spread_json.hpp"
#include "tutti/base/units.hpp"

namespace tutti {
namespace {

const char* state_of(const LoaderRow& row) {
    return row.cold ? "cold" : "warm";
}

const char* order_of(const LoaderRow& row) {
    if (!row.shuffled) return "sequential read";
    return *row.shuffled ? "shuffled" : "file";
}

std::string way_of(const LoaderRow& row) {
    return row.shuffled ? order_of(row) : "read(2) of " + format_bytes(row.block);
}

nlohmann::ordered_json to_json(const LoaderReport& report, const LoaderRow& row) {
    const Spread seconds = spread_of(row.seconds);
    nlohmann::ordered_json json{{"state", state_of(row)}, {"order", order_of(row)}};
    json["workers"] = row.shuffled ? nlohmann::ordered_json(row.workers) : nullptr;
    json["block_bytes"] = row.shuffled ? nullptr : nlohmann::ordered_json(row.block);
    json["samples"] = row.shuffled ? nlohmann::ordered_json(row.samples) : nullptr;
    json["bytes"] = row.bytes;
    json["seconds"] = spread_json(seconds);
    json["samples_per_second"] = row.shuffled ? nlohmann::ordered_json(row.samples_per_second()) : nullptr;
    json["bytes_per_second"] = row.bytes_per_second();
    json["share"] = report.share(row);
    json["share_of_batch_reads"] = report.share_of_batch_reads(row);
    return json;
}

/// Whether a row is the sequential read under the same condition.
auto is_read_beside(const LoaderRow& row) {
    return [cold = row.cold](const LoaderRow& other) { return !other.shuffled && other.cold == cold; };
}

std::string names(const std::vector<std::string>& files) {
    return files.size() == 1 ? files.front() : fmt::format("{} and {} more", files.front(), files.size() - 1);
}

}  // namespace

double LoaderReport::share(const LoaderRow& row) const {
    return row.bytes_per_second() / std::ranges::find_if(rows, is_read_beside(row))->bytes_per_second();
}

double LoaderReport::share_of_batch_reads(const LoaderRow& row) const {
    return row.bytes_per_second() /
           std::find_if(rows.rbegin(), rows.rend(), is_read_beside(row))->bytes_per_second();
}

nlohmann::ordered_json to_json(const LoaderReport& report) {
    nlohmann::ordered_json json;
    json["benchmark"] = "loader";
    json["version"] = TUTTI_VERSION;
    json["provenance"] = report.provenance;
    json["files"] = report.files;
    json["samples"] = report.data.samples;
    json["sample_shape"] =
        std::vector<std::int64_t>(report.data.sample_shape.begin(), report.data.sample_shape.end());
    json["dtype"] = name_of(report.data.dtype);
    json["transforms"] = report.transforms;
    json["sample_bytes"] = report.stored_bytes;
    json["batch_size"] = report.batch_size;
    json["prefetch"] = report.prefetch;
    json["batches"] = report.batches;
    json["rounds"] = report.rounds;
    json["cold_rounds"] = report.cold_rounds;
    json["left_in_memory"] = report.left_in_memory ? nlohmann::ordered_json(*report.left_in_memory) : nullptr;
    json["rows"] = nlohmann::ordered_json::array();
    for (const LoaderRow& row : report.rows) json["rows"].push_back(to_json(report, row));
    return json;
}

std::string to_text(const LoaderReport& report) {
    const int ranks = report.provenance.at("world_size").get<int>();
    std::string text =
        fmt::format("# loader: {}, {} {} of {}; batch {}, prefetch {}, {}\n", names(report.files),
                    counted(report.data.samples, "sample"), to_string(report.data.sample_shape),
                    format_bytes(static_cast<std::uint64_t>(report.stored_bytes)), report.batch_size,
                    report.prefetch, counted(ranks, "rank"));
    if (!report.transforms.empty())
        text += fmt::format("# transforms, part of reading: {}\n", fmt::join(report.transforms, ", "));
    text += fmt::format("# a round: {} of each rank, timed by the slowest; medians of {}",
                        counted(report.batches, "batch", "batches"), counted(report.rounds, "round"));
    if (report.cold_rounds > 0) text += fmt::format(" (cold: {})", report.cold_rounds);
    text +=
        ", in turn\n# read(2): a plain sequential read of as many bytes of the same files; share: of the "
        "bytes "
        "per second of the first,\n# in large blocks; of batch: of the last, in blocks of a batch\n# batches "
        "hold the files' bytes; making floats of them is part of a training step\n";
    if (report.left_in_memory)
        text += fmt::format(
            "# cold: before each round the files were evicted from the page cache; at most {:.0f} % stayed "
            "in it;\n# read(2) then reads each byte once at most\n",
            100 * *report.left_in_memory);
    text += fmt::format("# {:<6} {:<20} {:>8} {:>14} {:>9} {:>8} {:>9}\n", "state", "order", "workers",
                        "samples/s", "GB/s", "share", "of batch");
    for (const LoaderRow& row : report.rows) {
        text += fmt::format("  {:<6} {:<20} ", state_of(row), way_of(row));
        text += row.shuffled ? fmt::format("{:>8} {:>14.0f}", row.workers, row.samples_per_second())
                             : fmt::format("{:>8} {:>14}", "-", "-");
        text += fmt::format(" {:>9.3f} {:>6.0f} % {:>7.0f} %\n", row.bytes_per_second() * 1e-9,
                            100 * report.share(row), 100 * report.share_of_batch_reads(row));
    }
    return text;
}

}  // namespace tutti
