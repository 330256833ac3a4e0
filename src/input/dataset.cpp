#include "tutti/input/dataset.hpp"
#include "tutti/base/units.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "concatenation.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/memory_use.hpp"
#include "tutti/base/open_files.hpp"

namespace tutti {
namespace {

/// Data without labels need not say how many classes there are.
bool says_classes(const DatasetInfo& info) {
    return info.labelled || info.classes > 0;
}

/// Whether there are labels was compared before.
std::string describe(DatasetInfo info) {
    const std::string samples =
        std::string(name_of(info.dtype)) + " samples of " + to_string(info.sample_shape);
    if (!says_classes(info)) return samples;
    info.labelled = true;
    return samples + " in " + describe_wanted(info);
}

void require_alike(const Dataset& first, const Dataset& other) {
    const DatasetInfo &a = first.info(), &b = other.info();
    if (a.sample_shape.rank() == 2 && b.sample_shape.rank() == 2 && a.sample_shape[0] != b.sample_shape[0])
        throw DataError(fmt::format("{} has sequences of {}, but {} of {}", first.name(),
                                    counted(a.sample_shape[0], "step"), other.name(), b.sample_shape[0]),
                        "files that are used together must agree; pack them again with the same --length");
    if (a.targets != b.targets || a.target_kind != b.target_kind)
        throw DataError(first.name() + " has " + describe_wanted(a) + ", but " + other.name() + " has " +
                            describe_wanted(b),
                        "files that are used together must agree; use them apart");
    if (a.labelled != b.labelled)
        throw DataError(first.name() + " has " + (a.labelled ? "" : "no ") + "labels, but " + other.name() +
                            " has " + (b.labelled ? "some" : "none"),
                        "files that are used together must agree; use them apart");
    const bool classes_differ = says_classes(a) && says_classes(b) && a.classes != b.classes;
    if (a.sample_shape != b.sample_shape || a.dtype != b.dtype || classes_differ)
        throw DataError(
            first.name() + " has " + describe(a) + ", but " + other.name() + " has " + describe(b),
            "files that are used together must agree; pack them again");
    if (a.frames > 0 && b.frames > 0 && a.frames != b.frames)
        throw DataError(fmt::format("{} has clips of {} frames, but {} of {}", first.name(), a.frames,
                                    other.name(), b.frames),
                        "files that are used together must agree; pack them again with the same --frames");
    if (!a.class_names.empty() && !b.class_names.empty() && a.class_names != b.class_names)
        throw DataError(first.name() + " and " + other.name() + " have different class names",
                        "files that are used together must agree; pack them again");
    if (!a.target_names.empty() && !b.target_names.empty() && a.target_names != b.target_names)
        throw DataError(first.name() + " and " + other.name() + " have different target names",
                        "files that are used together must agree; pack them again");
    if (const std::string differ = other_features(a.feature_names, b.feature_names, first.name() + " has");
        !differ.empty())
        throw DataError(other.name() + " " + differ,
                        "files that are used together must agree; pack them again with the same columns in "
                        "the same order");
}

}  // namespace

std::string describe_wanted(const DatasetInfo& info) {
    if (info.has_segments()) return "segments in " + counted(info.targets / 2, "second");
    if (info.targets > 0) return counted(info.targets, "target");
    if (info.classes == 0) return "no labels";
    return std::to_string(info.classes) + (info.classes == 1 ? " class" : " classes") +
           (info.labelled ? "" : ", no labels");
}

bool are_named(const std::vector<std::string>& class_names) {
    for (std::size_t i = 0; i < class_names.size(); ++i)
        if (class_names[i] != std::to_string(i)) return true;
    return false;
}

std::string other_class_name(const std::vector<std::string>& trained, const std::vector<std::string>& names,
                             const std::string& where) {
    if (!are_named(trained) || !are_named(names)) return {};
    const std::size_t both = std::min(trained.size(), names.size());
    for (std::size_t i = 0; i < both; ++i)
        if (trained[i] != names[i])
            return "class " + std::to_string(i) + " is " + names[i] + ", but " + where + " it is " +
                   trained[i];
    return {};
}

std::string other_features(const std::vector<std::string>& trained, const std::vector<std::string>& names,
                           const std::string& where) {
    if (trained.empty() || names.empty() || trained == names) return {};
    constexpr std::size_t longest_list = 10;
    const auto [in_trained, in_names] = std::ranges::mismatch(trained, names);
    if (std::max(trained.size(), names.size()) <= longest_list || in_trained == trained.end() ||
        in_names == names.end())
        return fmt::format("has the features {}, but {} {}", fmt::join(names, ", "), where,
                           fmt::join(trained, ", "));
    return fmt::format("has {} as feature {}, but {} {} there", *in_names, in_names - names.begin(), where,
                       *in_trained);
}

void Dataset::read_labels(std::span<const std::int64_t> indices, std::span<std::int64_t> labels) const {
    std::vector<std::byte> samples(indices.size() * static_cast<std::size_t>(info().sample_bytes()));
    read(indices, samples, labels);
}

void Dataset::targets_at(const EpochPositions& /*at*/, std::span<const std::int64_t> indices,
                         std::span<float> out) const {
    const auto width = static_cast<std::size_t>(info().targets);
    const std::span<const float> all = targets();
    for (std::size_t i = 0; i < indices.size(); ++i)
        std::ranges::copy(all.subspan(static_cast<std::size_t>(indices[i]) * width, width),
                          out.subspan(i * width).begin());
}

std::vector<float> Dataset::hand_over_targets() {
    const std::span<const float> all = targets();
    return {all.begin(), all.end()};
}

bool whole_file_pays(double reads, std::int64_t samples, std::int64_t sample_bytes) {
    constexpr std::int64_t least = std::int64_t{128} << 10;
    const double whole = static_cast<double>(samples) * static_cast<double>(sample_bytes);
    return reads * static_cast<double>(std::max(sample_bytes, least)) >= whole;
}

FileMemory FileMemory::left_by(const Dataset& dataset) const {
    return {map - std::min(map, dataset.mapped_bytes()),
            bring_in - std::min(bring_in, dataset.brought_in_bytes())};
}

FileMemory file_memory(std::optional<std::int64_t> available) {
    // Files are brought into memory in the first pass; where they would push each other out again, reading
    // what a batch needs is better.
    if (!available) return mapped_limit;
    const std::uint64_t half = static_cast<std::uint64_t>(*available) / 2;
    return {std::min(mapped_limit, half), half};
}

std::unique_ptr<Dataset> open_datasets(std::span<const std::string> paths) {
    return open_datasets(paths, file_memory(available_bytes()), Labels::required);
}

std::unique_ptr<Dataset> open_datasets(std::span<const std::string> paths, FileMemory memory, Labels labels) {
    if (paths.empty()) throw UsageError("no data set is given", "set data.train to a file");
    allow_open_files(paths.size());
    std::vector<std::unique_ptr<Dataset>> parts;
    for (const std::string& path : paths) {
        parts.push_back(open_hdf5_dataset(path, memory, labels));
        memory = memory.left_by(*parts.back());
        require_alike(*parts.front(), *parts.back());
        // The first may not say how many classes there are, what its targets or features are, or its clips'
        // frames.
        const auto compare_with_first = [&](const auto& that) {
            const auto part = std::ranges::find_if(parts, [&](const auto& one) { return that(one->info()); });
            if (part != parts.end()) require_alike(**part, *parts.back());
        };
        compare_with_first(
            [](const DatasetInfo& info) { return says_classes(info) || !info.target_names.empty(); });
        compare_with_first([](const DatasetInfo& info) { return info.frames > 0; });
        compare_with_first([](const DatasetInfo& info) { return !info.feature_names.empty(); });
    }
    if (parts.size() == 1) return std::move(parts.front());
    return concatenate(std::move(parts));
}

std::vector<std::int64_t> count_labels(const Dataset& dataset) {
    constexpr std::int64_t piece = 4096;
    std::vector<std::int64_t> counts(static_cast<std::size_t>(dataset.info().classes));
    std::vector<std::int64_t> indices, labels;
    for (std::int64_t begin = 0; begin < dataset.info().samples; begin += piece) {
        indices.resize(static_cast<std::size_t>(std::min(piece, dataset.info().samples - begin)));
        std::iota(indices.begin(), indices.end(), begin);
        labels.resize(indices.size());
        dataset.read_labels(indices, labels);
        for (const std::int64_t label : labels) ++counts[static_cast<std::size_t>(label)];
    }
    return counts;
}

std::string doubt_about_layout(const DatasetInfo& info) {
    if (info.dtype == DType::f32 && info.sample_shape.rank() == 2 && (info.labelled || info.targets > 0) &&
        info.target_kind.empty())
        return fmt::format(
            "samples are {}, taken for sequences of {} steps with {} features, the last of which "
            "says whether a step exists; if they are grey images, store them as uint8 [N, H, W, 1], from 0 "
            "to 255",
            to_string(info.sample_shape), info.sample_shape[0], info.sample_shape[1]);
    if (info.dtype != DType::u8 || info.sample_shape.rank() != 3) return {};
    const std::int64_t height = info.sample_shape[0], width = info.sample_shape[1],
                       channels = info.sample_shape[2];
    // The frames of a clip have channels of their own; and small samples may be anything.
    constexpr std::int64_t smallest_image = 8;
    const bool channels_first = height == 1 || height == 3 || height == 4;
    if (info.frames > 0 || !channels_first || std::min(width, channels) < smallest_image) return {};
    const auto text = [](std::int64_t number) { return std::to_string(number); };
    return "samples are " + to_string(info.sample_shape) + ", taken for images of " + text(height) + " x " +
           text(width) + " pixels with " + text(channels) +
           " channels; if their channels come first, store them as [N, H, W, C], in h5py with "
           "images.transpose(0, 2, 3, 1)";
}

std::string doubt_about_units(const DatasetInfo& info) {
    if (info.dtype != DType::u8 || info.mean.empty()) return {};
    const float largest = *std::max_element(info.mean.begin(), info.mean.end());
    if (largest <= 1) return {};
    return fmt::format(
        "the mean is {}, but is taken from pixels that are scaled to [0, 1]; divide mean and std by 255",
        largest);
}

}  // namespace tutti
