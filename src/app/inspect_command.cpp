#include <fcntl.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <numeric>
#include <string_view>
#include <system_error>

#include "command_line.hpp"
#include "inspect_config.hpp"
#include "reference_tables.hpp"
#include "synthetic_data.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/path_type.hpp"
#include "tutti/base/shell_word.hpp"
#include "tutti/base/units.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/input/geography.hpp"
#include "tutti/input/label_summary.hpp"
#include "tutti/input/sample_paths.hpp"
#include "tutti/input/target_summary.hpp"
#include "tutti/train/checkpoint.hpp"
#include "tutti/train/normalisation.hpp"
#include "tutti/train/prediction_file.hpp"
#include "tutti/train/run_directory.hpp"
#include "tutti/train/training_data.hpp"
#include "tutti/train/weights_file.hpp"
#include "weights_in_run.hpp"

namespace tutti {
namespace {

void print_targets(const Dataset& dataset) {
    const DatasetInfo& info = dataset.info();
    std::size_t width = 4;
    for (const std::string& name : info.target_names) width = std::max(width, name.size());
    fmt::print("  over all samples\n    {:>4}  {:<{}}  {:>12}  {:>12}  {:>12}  {:>12}\n", "", "name", width,
               "minimum", "mean", "maximum", "std");
    const std::vector<TargetSummary> summaries = summarize_targets(dataset);
    for (std::size_t target = 0; target < summaries.size(); ++target) {
        const TargetSummary& of = summaries[target];
        fmt::print("    {:>4}  {:<{}}  {:>12.6g}  {:>12.6g}  {:>12.6g}  {:>12.6g}\n", target,
                   target < info.target_names.size() ? info.target_names[target] : "", width, of.minimum,
                   of.mean, of.maximum, of.standard_deviation);
    }
}

void print_segments(const Dataset& dataset) {
    const SegmentSummary of = summarize_segments(dataset);
    fmt::print("  segments  {} in {} of {}", of.segments, of.samples,
               counted(dataset.info().samples, "sample"));
    if (of.segments > 0)
        fmt::print(", {:.6g} to {:.6g} s long, {:.6g} s on average", of.shortest, of.longest, of.mean);
    fmt::print("\n  seconds   {} inside of a segment, {} outside or padding\n", of.inside, of.others);
}

void print_names(const char* title, const std::vector<std::string>& names) {
    if (names.empty()) return;
    fmt::print("  {}\n", title);
    // Tables of genes have thousands.
    constexpr std::size_t most = 200;
    const std::size_t all = names.size(), shown = all > most ? most : all;
    for (std::size_t i = 0; i < shown; ++i) fmt::print("    {:>4}  {}\n", i, names[i]);
    if (shown < all) fmt::print("          and {} more\n", all - shown);
}

/// "classes   10".
std::string classes_or_targets(const DatasetInfo& info) {
    if (info.has_segments()) return "targets   " + describe_wanted(info);
    if (info.targets > 0) return fmt::format("targets   {}", info.targets);
    return "classes   " + (info.classes > 0 ? std::to_string(info.classes) : "unknown");
}

void inspect_dataset(const std::string& path) {
    const auto dataset = open_hdf5_dataset(path, mapped_limit, Labels::optional);
    const auto paths = open_sample_paths({&path, 1});
    const DatasetInfo& info = dataset->info();
    fmt::print("{}: data set\n  samples   {}\n  shape     {} {}\n  {}\n  bytes     {}\n", path, info.samples,
               to_string(info.sample_shape), name_of(info.dtype), classes_or_targets(info),
               format_bytes(static_cast<std::uint64_t>(info.samples * info.sample_bytes())));
    if (info.frames > 0)
        fmt::print("  frames    {}, of {} channels each\n", info.frames, info.sample_shape[2] / info.frames);
    if (!info.mean.empty())
        fmt::print("  mean      {}\n  std       {}\n", fmt::join(info.mean, ", "), fmt::join(info.std, ", "));
    if (paths)
        fmt::print("  paths     {}\n", info.samples > 0
                                           ? "one each, the first: " + shell_word(paths->read(0, 1).front())
                                           : "of no sample");
    if (const std::string doubt = doubt_about_layout(info); !doubt.empty())
        fmt::print(stderr, "warning: {}: {}\n", path, doubt);
    if (has_placements(path)) fmt::print("  places    where each sample lies in a picture\n");
    print_names("features", info.feature_names);
    if (info.has_segments()) return print_segments(*dataset);
    if (info.targets > 0) return print_targets(*dataset);
    if (!info.labelled) {
        fmt::print("  labels    none\n");
        return;
    }
    const std::vector<std::int64_t> counts = count_labels(*dataset);
    fmt::print("  labels\n");
    for (std::size_t label = 0; label < counts.size(); ++label)
        fmt::print("    {:>4}  {:>8}  {}\n", label, counts[label],
                   label < info.class_names.size() ? info.class_names[label] : "");
    const bool first_class_empty = info.samples > 0 && !counts.empty() && counts.front() == 0;
    if (const std::string doubt = doubt_about_labels(info, first_class_empty); !doubt.empty())
        fmt::print(stderr, "warning: {}: {}; {}\n", path, doubt, remedy_for_labels(info));
}

void print_tensors(const char* title, const std::vector<NamedTensor>& tensors) {
    if (tensors.empty()) return;
    std::int64_t count = 0;
    for (const NamedTensor& tensor : tensors) count += tensor.shape.count();
    fmt::print("  {}, {}\n", title, counted(count, "value"));
    for (const NamedTensor& tensor : tensors)
        fmt::print("    {:<32} {:<4} {}\n", tensor.name, name_of(tensor.dtype), to_string(tensor.shape));
}

void print_weights(const std::string& path, const std::vector<NamedTensor>& tensors) {
    fmt::print("{}: weights\n", path);
    print_tensors("tensors", tensors);
}

/// Tensors without a run around them, exported or of another program; false where there are none.
bool inspect_weights(const std::string& path) {
    std::vector<NamedTensor> tensors;
    try {
        tensors = read_weights(path);
    } catch (const DataError&) {
        return false;
    }
    print_weights(path, tensors);
    return true;
}

/// By its name: what is wrong with it is said as of weights, also where it is torch.save()'s or cut off.
bool is_meant_as_weights(const std::string& path) {
    constexpr std::array<std::string_view, 4> endings = {".safetensors", ".pt", ".pth", ".ckpt"};
    return std::ranges::any_of(endings, [&](std::string_view ending) { return path.ends_with(ending); });
}

/// Keeps what says that somebody else uses the file.
herr_t note_use(unsigned, const H5E_error2_t* error, void* reason) {
    const std::string text = error->desc == nullptr ? "" : error->desc;
    if (text.find("already open for") != std::string::npos || text.find("lock file") != std::string::npos)
        *static_cast<std::string*>(reason) = text;
    return 0;
}

/// Cluster file systems often have no locks. in_use: what HDF5 says of a file that somebody writes, which is
/// none that is damaged.
hid_t open_without_lock(const std::string& path, std::string* in_use = nullptr) {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_file_locking(access, false, true);
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access);
    if (file < 0 && in_use != nullptr) H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_use, in_use);
    H5Pclose(access);
    return file;
}

/// Whether it is meant as a data set: then its own errors say what is missing.
bool has_samples(const std::string& path) {
    const hid_t file = open_without_lock(path);
    const bool found = file >= 0 && H5Lexists(file, "samples", H5P_DEFAULT) > 0;
    if (file >= 0) H5Fclose(file);
    return found || is_dataset_file(path);
}

void inspect_checkpoint(const std::string& path) {
    const Checkpoint checkpoint = peek_checkpoint(path);
    const Progress& progress = checkpoint.progress;
    fmt::print(
        "{}: checkpoint\n  step      {}\n  epoch     {} (position {})\n  samples   {}\n  saved by  {} {}\n",
        path, progress.step, progress.epoch, progress.position, progress.samples, progress.world_size,
        progress.world_size == 1 ? "rank" : "ranks");
    if (progress.skipped > 0) fmt::print("  skipped   {}\n", counted(progress.skipped, "update"));
    if (!checkpoint.failed_step.empty())
        fmt::print("  failed    at step {}: trainer replay {}\n", progress.step + 1, shell_word(path));
    if (!checkpoint.last_eval.empty()) fmt::print("  last eval {}\n", checkpoint.last_eval);
    if (const auto trained = normalisation_from(checkpoint.normalisation, path);
        trained && !trained->is_none())
        fmt::print("  trained   with {}\n", describe(*trained));
    if (const auto data = training_data_from_json(checkpoint.training_data, path)) {
        fmt::print("  data      samples {}, {}\n", to_string(data->sample_shape), describe_wanted(*data));
        print_names("classes", data->class_names);
        print_names("targets", data->target_names);
        print_names("features", data->feature_names);
    }
    if (progress.has_best)
        fmt::print("  best      step {} ({:.6g})\n", progress.best_step, progress.best_metric);
    print_tensors("model", checkpoint.model);
    print_tensors("optimizer", checkpoint.optimizer);
    print_tensors("ema", checkpoint.ema);
    // What is read in well under a second is; it throws where the hash is another.
    constexpr std::uintmax_t checked_at_once = std::uintmax_t{256} << 20U;
    std::error_code gone;  // then it has no size, and the largest number is given
    if (std::filesystem::file_size(path, gone) <= checked_at_once) {
        load_checkpoint(path);
        fmt::print("  content   matches the stored SHA-256\n");
    } else {
        fmt::print(
            "  content   not checked against the stored SHA-256; this does: trainer inspect {} --sha256\n",
            shell_word(path));
    }
}

void inspect_predictions(const std::string& path) {
    const PredictionSummary summary = read_prediction_summary(path);
    fmt::print(
        "{}: predictions\n  samples   {}\n  correct   {}\n  weights   {}\n  sha256    {}\n  data      {}\n",
        path, summary.samples,
        summary.regression ? "of outputs, not classes"
        : summary.labelled ? std::to_string(summary.correct)
                           : "unknown: no labels",
        summary.origin.weights, summary.origin.weights_sha256, summary.origin.data);
    fmt::print("  columns, with the hash of their bytes\n");
    for (const PredictionColumn& column : summary.columns)
        fmt::print("    {:<12} {:<4} {:<14} {}\n", column.name, column.text ? "text" : name_of(column.dtype),
                   to_string(column.shape), column.sha256);
}

/// What it was cannot be told any more, so neither how to make it again.
void require_whole(const std::string& file) {
    if (H5Fis_hdf5(file.c_str()) <= 0) return;
    std::string in_use;
    const hid_t opened = open_without_lock(file, &in_use);
    if (!in_use.empty())
        throw DataError(file + ": HDF5 cannot open it: " + in_use,
                        "wait until what writes it is done; where that was ended, make it again");
    if (opened < 0)
        throw DataError(file + ": a damaged HDF5 file, cut off or overwritten: HDF5 cannot open it",
                        "copy it again from where it is whole, or make it again");
    H5Fclose(opened);
}

void print_sha256(const std::string& file) {
    require_whole(file);
    if (!is_prediction_file(file) && !is_checkpoint(file) &&
        type_of_path(file) != std::filesystem::file_type::not_found)
        throw DataError(file + ": neither a checkpoint nor predictions",
                        "--sha256 hashes those; trainer inspect " + shell_word(file) + " shows what it is");
    fmt::print("{}\n", is_prediction_file(file) ? read_prediction_summary(file).sha256
                                                : model_sha256(load_checkpoint(file)));
}

/// of_run: whether it was found in a run directory.
void inspect_file(const std::string& file, bool of_run) {
    if (type_of_path(file) == std::filesystem::file_type::not_found)
        throw DataError(file + ": there is no such file or directory", "check the path");
    if (const int opened = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); opened >= 0)
        close(opened);
    else
        throw DataError(file + ": " + std::generic_category().message(errno),
                        "check the path and its permissions");
    // Its sort is not known: "pack it again" would be wrong for a checkpoint, and for what is not ours.
    if (H5Fis_hdf5(file.c_str()) <= 0) {
        if (is_meant_as_weights(file)) return print_weights(file, read_weights(file));
        if (inspect_weights(file)) return;
        const bool is_config = file.ends_with(".yaml") || file.ends_with(".yml");
        throw DataError(file + ": not an HDF5 file, nor safetensors",
                        is_config ? "a config is given with -c: trainer inspect -c " + shell_word(file)
                                  : "name a data set, a checkpoint, a run directory, predictions or weights");
    }
    require_whole(file);
    if (is_checkpoint(file) || of_run)  // there it can be nothing else, damaged or not
        inspect_checkpoint(file);
    else if (is_prediction_file(file))
        inspect_predictions(file);
    else if (has_samples(file) || !inspect_weights(file))
        inspect_dataset(file);
}

struct InspectArguments {
    std::string path, shape;
    RecipeArguments recipe;
    bool sha256 = false, config_keys = false, layers = false, options = false;
    std::int64_t world = 1;

    bool wants_table() const { return config_keys || layers || options; }
};

void print_tables(const InspectArguments& given) {
    const std::string& config = given.recipe.config_path;
    if (!given.path.empty() || !config.empty())
        throw UsageError("trainer inspect: a table of all keys, layers or options is of no file",
                         "leave out " + (config.empty() ? given.path : "-c " + config));
    if (given.config_keys) print_config_reference();
    if (given.layers) print_layer_reference();
    if (given.options) print_option_reference();
}

/// What is for a config was given without one.
void refuse_without_config(const InspectArguments& given) {
    const std::vector<std::string>& overrides = given.recipe.overrides;
    if (!overrides.empty())
        throw UsageError("trainer inspect: " + overrides.front() + " is one too many",
                         "name one file or run directory; settings are for a config: -c FILE");
    if (given.world != 1) throw UsageError("--world is for a config", "give -c FILE, or leave it out");
    if (given.recipe.own_data || !given.shape.empty())
        throw UsageError(std::string(given.recipe.own_data ? "--synthetic" : "--shape") + " is for a config",
                         "give -c FILE, or leave it out");
    if (given.path.empty())
        throw UsageError("trainer inspect: nothing to look at", "give a file, a run directory or -c FILE");
}

}  // namespace

int inspect_command(const Arguments& arguments) {
    OptionParser parser(
        "Shows what is in a data set, a checkpoint, a run directory (its latest checkpoint), a file of "
        "predictions or weights (safetensors, HDF5); with -c the layers, memory and buckets of a config.",
        "trainer inspect");
    InspectArguments given;
    RecipeArguments& recipe = given.recipe;
    parser.add_path("path", given.path, "file or run directory");
    parser.add_option("key=value", recipe.overrides, "with -c: settings that override the file");
    parser.add_path("-c,--config", recipe.config_path, "YAML file");
    parser.add_option("--world", given.world, "with -c: number of ranks, all taken to be on this host")
        .in_range(1, 1000000)
        .show_default();
    add_synthetic_options(parser, recipe, given.shape);
    parser.add_flag(
        "--sha256", given.sha256,
        "print only the hash of all model tensors of a checkpoint, in name order, or of all columns "
        "of predictions");
    parser.add_flag("--config-reference", given.config_keys, "print all config keys as a Markdown table");
    parser.add_flag("--layer-reference", given.layers, "print the kinds of model.layers as a Markdown table");
    parser.add_flag("--option-reference", given.options,
                    "print the options of other trainers that are understood as a Markdown table");
    if (!parse_arguments(parser, arguments)) return 0;
    if (given.wants_table()) {
        print_tables(given);
    } else if (!recipe.config_path.empty()) {
        if (given.sha256) throw UsageError("--sha256 is for checkpoints and predictions", "leave out -c");
        // With -c every word is a setting.
        if (!given.path.empty()) recipe.overrides.insert(recipe.overrides.begin(), given.path);
        inspect_config(recipe, synthetic_shape(recipe, given.shape), given.world);
    } else {
        refuse_without_config(given);
        with_weights_in(given.path, false, [&](const std::string& file) {
            if (given.sha256)
                print_sha256(file);
            else
                inspect_file(file, file != given.path);
        });
    }
    return 0;
}

}  // namespace tutti
