#include "tutti/input/split_folders.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "tutti/base/error.hpp"
#include "tutti/base/lower_case.hpp"
#include "tutti/base/shell_word.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

/// The folders in `folder`, sorted; what cannot be listed has none.
std::vector<fs::path> folders_below(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code error, ignored;
    for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
         entry.increment(error))
        if (entry->is_directory(ignored) && !entry->path().filename().string().starts_with('.'))
            found.push_back(entry->path());
    std::ranges::sort(found);
    return found;
}

bool has_folders(const fs::path& folder, int levels) {
    if (levels == 0) return true;
    return std::ranges::any_of(folders_below(folder),
                               [&](const fs::path& below) { return has_folders(below, levels - 1); });
}

bool names_split(const fs::path& folder) {
    constexpr std::array<std::string_view, 9> names{"train", "training",   "val",  "valid",  "validation",
                                                    "dev",   "evaluation", "test", "testing"};
    return std::ranges::find(names, lower_case(folder.filename().string())) != names.end();
}

}  // namespace

std::string refuse_splits(const std::string& folder, int levels) {
    const std::vector<fs::path> all = folders_below(folder);
    std::vector<fs::path> splits, packed;
    std::ranges::copy_if(all, std::back_inserter(splits), names_split);
    std::ranges::copy_if(splits, std::back_inserter(packed),
                         [&](const fs::path& split) { return has_folders(split, levels); });
    const bool no_others = splits.size() == all.size();
    if (packed.empty() || (!no_others && packed.size() < 2)) return {};
    std::vector<std::string> names, options;
    for (const fs::path& split : splits) names.push_back(split.filename().string());
    for (const fs::path& split : packed) options.push_back("--dir " + shell_word(split.string()));
    const std::string problem =
        fmt::format("--dir {} holds {}, which are parts of a data set and not its classes", folder,
                    fmt::join(names, ", "));
    const std::string remedy =
        fmt::format("pack each part into a file of its own: {}", fmt::join(options, ", then "));
    if (no_others && splits.size() > 1)
        throw UsageError(problem,
                         remedy + "; where they are classes after all, name them in a table: --csv FILE");
    return fmt::format("--dir {} holds {}, which {} to be {} of a data set, and not {}; {}", folder,
                       fmt::join(names, ", "), splits.size() == 1 ? "seems" : "seem",
                       splits.size() == 1 ? "a part" : "parts", splits.size() == 1 ? "a class" : "classes",
                       remedy);
}

}  // namespace tutti
