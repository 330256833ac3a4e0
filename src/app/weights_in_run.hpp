#pragma once
// Weights that a command is given: a file, or a run directory, in which a training may go on.

#include <functional>
#include <string>
#include <vector>

#include "tutti/base/named_tensor.hpp"

namespace tutti {

/// The latest checkpoint of a run directory, or the best by train.checkpoint.best; `path` itself if it is
/// none. Throws DataError when the run has none, and UsageError for the best of a file.
std::string weights_in(const std::string& path, bool best = false);
/// `use` with weights_in(path, best). A training that goes on removes its older checkpoints: where that one
/// is gone while it is used, which then throws DataError, `use` is called with what is the latest by then;
/// most_searches times, then throws DataError that says so.
void with_weights_in(const std::string& path, bool best, const std::function<void(const std::string&)>& use);
inline constexpr const char* best_help =
    "of a run directory the checkpoint that train.checkpoint.best has kept, instead of the latest";

// Of which with_weights_in consists, for who looks for weights on several ranks.
inline constexpr int most_searches = 5;
/// Whether `file`, which was found in the run directory `path`, is there no more.
bool is_removed(const std::string& path, const std::string& file);
/// What is said of a run directory after the last search.
std::string text_of_removed(const std::string& path);

/// Whether weights_to_evaluate are the moving average of a checkpoint.
bool are_averaged(const std::string& path);
inline constexpr const char* averaged_note = " (averaged weights)";

/// The weights that evaluations use: of a checkpoint the moving average where there is one, else what
/// read_weights finds.
std::vector<NamedTensor> weights_to_evaluate(const std::string& path);

}  // namespace tutti
