#include "tutti/base/suggest.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace tutti {
namespace {

/// Optimal string alignment: insert, delete, replace, or swap two neighbours, each at cost 1. Three rows of
/// the usual table are enough, because a swap looks back two rows.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before_last[j - 2] + 1);
        }
        std::swap(before_last, last);
        std::swap(last, row);
    }
    return last[b.size()];
}

/// "AdamW" and "adamw", "--batch_size" and "--batch-size" are one word to people.
std::string folded(std::string_view word) {
    std::string result(word);
    for (char& c : result) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
        if (c == '_') c = '-';
    }
    return result;
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
    std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
    std::string best;
    const std::string given = folded(word);
    for (const std::string& candidate : candidates) {
        const std::size_t distance = edit_distance(given, folded(candidate));
        if (distance < best_distance) {
            best_distance = distance;
            best = candidate;
        }
    }
    return best;
}

std::string nearest_in_meaning(std::string_view word, std::span<const std::string> candidates) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 8> elsewhere = {{
        {"gpu", "cuda"},
        {"gpus", "cuda"},
        {"float", "fp32"},
        {"float32", "fp32"},
        {"tensorfloat32", "tf32"},
        {"bfloat16", "bf16"},
        {"double", "fp64"},
        {"float64", "fp64"},
    }};
    const std::string given = folded(word);
    for (const auto& [name, ours] : elsewhere)
        if (name == given && std::find(candidates.begin(), candidates.end(), ours) != candidates.end())
            return std::string(ours);
    return nearest(word, candidates);
}

}  // namespace tutti
