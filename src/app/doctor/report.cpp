#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tutti/base/json_text.hpp"

namespace tutti::doctor {
namespace {

using Cells = std::vector<std::string>;

std::string table(const std::vector<Cells>& rows) {
    std::vector<std::size_t> widths(rows.front().size());
    for (const Cells& row : rows)
        for (std::size_t column = 0; column < row.size(); ++column)
            widths[column] = std::max(widths[column], row[column].size());
    std::string text;
    for (const Cells& row : rows) {
        std::string line;
        for (std::size_t column = 0; column < row.size(); ++column)
            line += fmt::format("{:<{}}  ", row[column], widths[column]);
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
}

/// Versions are long and mostly alike: one line per library, with who has which where they differ.
std::string libraries(const JobFacts& job) {
    std::map<std::string, std::map<std::string, std::vector<int>>> known;
    for (const RankFacts& one : job.ranks)
        for (const auto& [name, version] : one.libraries) known[name][version].push_back(one.rank);
    std::string text;
    for (const auto& [name, versions] : known)
        for (const auto& [version, ranks] : versions)
            text += ranks.size() == job.ranks.size()
                        ? fmt::format("{}: {}, on every rank\n", name, version)
                        : fmt::format("{}: {}, on ranks {}\n", name, version, ranges(ranks));
    return text;
}

std::string line_of(const AllReduceFacts& sums, const std::string& memory, const std::string& way,
                    std::size_t ranks) {
    return fmt::format("all-reduce {}({}): ten random floats {:.1e} from the exact sum (rounding: {:.1e})",
                       memory, way, sums.largest_error, sums.allowed_error) +
           (ranks == 1
                ? std::string("\n")
                : fmt::format("; {} MB in {:.1f} ms, {:.2f} GB/s bus bandwidth\n", sums.bytes / 1'000'000,
                              sums.seconds * 1e3, bus_bandwidth(sums, ranks) * 1e-9));
}

nlohmann::ordered_json to_json(const AllReduceFacts& sums, std::size_t ranks) {
    return {{"backend", sums.backend},
            {"path", sums.path},
            {"largest_error", sums.largest_error},
            {"allowed_error", sums.allowed_error},
            {"bytes", sums.bytes},
            {"seconds", sums.seconds},
            {"bus_bandwidth", bus_bandwidth(sums, ranks)},
            {"wrong", sums.wrong}};
}

nlohmann::ordered_json to_json(const GpuFacts& gpus, std::size_t ranks) {
    nlohmann::ordered_json json{{"able_ranks", gpus.able_ranks}, {"why_cpu", gpus.why_cpu},
                                {"refusal", gpus.refusal},       {"why_no_nccl", gpus.why_no_nccl},
                                {"failure", gpus.failure},       {"all_reduce", nullptr}};
    if (gpus.all_reduce) json["all_reduce"] = to_json(*gpus.all_reduce, ranks);
    return json;
}

/// "2 problems:" and each, with its fix.
std::string list(const std::string& kind, const std::vector<Problem>& entries) {
    std::string text = fmt::format("\n{} {}{}:\n", entries.size(), kind, entries.size() == 1 ? "" : "s");
    for (const Problem& one : entries)
        text += fmt::format("- {} [{}]\n  fix: {}\n", one.what, one.name, one.fix);
    return text;
}

nlohmann::ordered_json to_json(const std::vector<Problem>& entries) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const Problem& one : entries)
        json.push_back(nlohmann::ordered_json{{"name", one.name}, {"what", one.what}, {"fix", one.fix}});
    return json;
}

}  // namespace

std::string ranges(const std::vector<int>& numbers) {
    std::string text;
    for (std::size_t first = 0; first < numbers.size();) {
        std::size_t last = first;
        while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
        text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[first]);
        if (last > first) text += fmt::format("-{}", numbers[last]);
        first = last + 1;
    }
    return text;
}

double bus_bandwidth(const AllReduceFacts& facts, std::size_t ranks) {
    if (facts.seconds <= 0) return 0;
    return static_cast<double>(facts.bytes) / facts.seconds * 2 * static_cast<double>(ranks - 1) /
           static_cast<double>(ranks);
}

std::string text_report(const JobFacts& job, const std::vector<Problem>& problems,
                        const std::vector<Problem>& hints) {
    std::vector<Cells> rows = {
        {"rank", "host", "local", "device", "cores", "threads", "NUMA", "HDF5 locking", "/dev/shm", "clock"}};
    for (const RankFacts& one : job.ranks)
        rows.push_back({std::to_string(one.rank), one.host, std::to_string(one.local_rank),
                        one.gpu_uuid.empty() ? "CPU" : one.gpu_name + " " + one.gpu_uuid, ranges(one.cores),
                        std::to_string(one.threads), ranges(one.numa_nodes), one.hdf5_locking,
                        fmt::format("{:.1f} GiB", static_cast<double>(one.shm_bytes) / (1 << 30)),
                        fmt::format("{:+.3f} s", one.clock_ahead)});
    std::string text =
        fmt::format("{} {}, started by {}\n\n{}\n{}", job.ranks.size(),
                    job.ranks.size() == 1 ? "rank" : "ranks", job.launcher, table(rows), libraries(job));

    const std::string memory = job.gpus.all_reduce ? "of host memory " : "";
    text += line_of(job.all_reduce, memory, job.all_reduce.backend, job.ranks.size());
    if (job.gpus.all_reduce)
        text += line_of(*job.gpus.all_reduce, "of the GPUs' memory ", job.gpus.all_reduce->path,
                        job.ranks.size());

    text += problems.empty() ? std::string("\nno problems found\n") : list("problem", problems);
    return hints.empty() ? text : text + list("hint", hints);
}

std::string json_report(const JobFacts& job, const std::vector<Problem>& problems,
                        const std::vector<Problem>& hints) {
    nlohmann::ordered_json document;
    document["healthy"] = problems.empty();
    document["launcher"] = job.launcher;
    for (const RankFacts& one : job.ranks)
        document["ranks"].push_back(nlohmann::ordered_json::parse(to_json(one)));
    document["all_reduce"] = to_json(job.all_reduce, job.ranks.size());
    document["gpus"] = to_json(job.gpus, job.ranks.size());
    document["problems"] = to_json(problems);
    document["hints"] = to_json(hints);
    return json_text(document, 2) + "\n";
}

}  // namespace tutti::doctor
