#include "weights_in_run.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "tutti/base/error.hpp"
#include "tutti/base/path_type.hpp"
#include "tutti/train/checkpoint.hpp"
#include "tutti/train/run_directory.hpp"
#include "tutti/train/weights_file.hpp"

namespace tutti {
namespace {

/// Of the run directory `path`, by what its checkpoint `latest` says.
std::string best_in(const std::string& path, const std::string& latest) {
    const Progress progress = peek_checkpoint(latest).progress;
    if (!progress.has_best)
        throw DataError(
            "--best: " + path + " does not say which of its checkpoints is the best",
            "leave out --best; train with train.checkpoint.best=val/accuracy, for example, for at "
            "least train.checkpoint.best_from epochs");
    std::string file = path_of_checkpoint(path, progress.best_step);
    if (type_of_path(file) == std::filesystem::file_type::not_found)
        throw DataError("--best: " + file + ", the best, is no longer there", "leave out --best");
    return file;
}

}  // namespace

bool is_removed(const std::string& path, const std::string& file) {
    return !file.empty() && file != path && type_of_path(file) == std::filesystem::file_type::not_found;
}

std::string text_of_removed(const std::string& path) {
    return fmt::format(
        "{}: its run is going on, and has removed each of {} checkpoints before it was read; wait for the "
        "run, copy a checkpoint, or let the run keep more of them (train.checkpoint.keep)",
        path, most_searches);
}

std::string weights_in(const std::string& path, bool best) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(path, ignored)) {
        if (best && type_of_path(path) != std::filesystem::file_type::not_found)
            throw UsageError(
                "--best: " + path + " is one file, and not a run directory with several checkpoints",
                "leave out --best, or give the run directory");
        return path;
    }
    for (int tries = 1;; ++tries) {
        const auto latest = latest_checkpoint(path);
        if (!latest)
            throw DataError(path + " holds no checkpoint",
                            "give a run directory with checkpoints/, or a file");
        if (!best) return *latest;
        try {
            return best_in(path, *latest);
        } catch (const DataError&) {
            if (tries == most_searches || latest_checkpoint(path) == latest) throw;
        }
    }
}

void with_weights_in(const std::string& path, bool best, const std::function<void(const std::string&)>& use) {
    for (int tries = 1;; ++tries) {
        const std::string file = weights_in(path, best);
        try {
            return use(file);
        } catch (const DataError&) {
            if (!is_removed(path, file)) throw;
            if (tries == most_searches) throw Error(ExitCode::data, text_of_removed(path));
        }
    }
}

bool are_averaged(const std::string& path) {
    return is_checkpoint(path) && !peek_checkpoint(path).ema.empty();
}

std::vector<NamedTensor> weights_to_evaluate(const std::string& path) {
    if (!is_checkpoint(path)) return read_weights(path);
    Checkpoint checkpoint = load_checkpoint(path);
    for (NamedTensor& average : checkpoint.ema)
        for (NamedTensor& tensor : checkpoint.model)
            if (tensor.name == average.name) tensor.bytes = std::move(average.bytes);
    return std::move(checkpoint.model);
}

}  // namespace tutti
