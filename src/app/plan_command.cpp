#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "command_line.hpp"
#include "plan_options.hpp"
#include "plan_report.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/json_text.hpp"
#include "tutti/base/report_file.hpp"

namespace tutti {
namespace {

constexpr int most_ranks = 1'000'000;

/// "2,4,8", none twice.
std::vector<int> parse_worlds(const std::string& text) {
    std::vector<int> worlds;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const std::string item = text.substr(begin, end - begin);
        int world = 0;
        const auto [rest, error] = std::from_chars(item.data(), item.data() + item.size(), world);
        if (error != std::errc() || rest != item.data() + item.size() || world < 1 || world > most_ranks)
            throw UsageError(fmt::format("--world: '{}' is not a number of ranks", item),
                             fmt::format("give whole numbers from 1 to {}, for example 2,4,8", most_ranks));
        if (std::ranges::find(worlds, world) == worlds.end()) worlds.push_back(world);
        begin = end + 1;
    }
    return worlds;
}

}  // namespace

int plan_command(const Arguments& arguments) {
    OptionParser parser(
        "Predicts the step and the best buckets on other numbers of ranks from what trainer bench buckets "
        "has measured on some. Says what it assumes, and how far it is off on the ranks that were measured.",
        "trainer plan");
    std::string from, worlds, out;
    PlanOptions plans;
    bool json = false;
    parser.add_path("--from", from, "a buckets.json of two or more ranks").required().type_name("FILE");
    parser.add_option("--world", worlds, "numbers of ranks, for example 2,4,8").required().type_name("RANKS");
    plans.add_to(parser);
    parser.add_flag("--json", json, "print one JSON object and nothing else");
    parser.add_path("--out", out, "directory for plan.json; without it no file is written");
    if (!parse_arguments(parser, arguments)) return 0;

    const PlanRequest request = plans.request();
    const std::vector<int> numbers = parse_worlds(worlds);
    const std::string path = out.empty() ? "" : prepare_report(out, "plan.json");
    const PlanReport report = make_plan_report(read_measured_world(from), numbers, request);
    const std::string document = json_text(to_json(report), 1) + "\n";
    fmt::print("{}", json ? document : to_text(report));
    std::fflush(stdout);
    if (!path.empty()) write_report(path, document);
    if (!path.empty() && !json) fmt::print("\n{} is written\n", path);
    std::fflush(stdout);
    return 0;
}

}  // namespace tutti
