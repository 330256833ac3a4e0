#include "schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tutti/base/error.hpp"
#include "tutti/base/units.hpp"

namespace tutti::schema {
namespace {

std::string give_all_names(const std::string& attribute) {
    return "give a name for each, or remove them, in h5py with del file.attrs['" + attribute + "']";
}

bool fits_in_64_bits(const DatasetInfo& info) {
    auto bytes = static_cast<std::int64_t>(size_of(info.dtype));
    for (const std::int64_t dim : info.sample_shape)
        if (__builtin_mul_overflow(bytes, dim, &bytes)) return false;
    auto target_bytes = static_cast<std::int64_t>(sizeof(float));
    return !__builtin_mul_overflow(bytes, info.samples, &bytes) &&
           !__builtin_mul_overflow(target_bytes, info.targets, &target_bytes) &&
           !__builtin_mul_overflow(target_bytes, info.samples, &target_bytes);
}

/// Attributes of labels beside targets, and how to remove them.
Violation left_over_of_labels(const DatasetInfo& info) {
    const std::string count = classes_attribute, names = class_names_attribute;
    const auto remove = [](const std::string& attribute) { return "file.attrs['" + attribute + "']"; };
    const std::string problem = "there are /targets, but the attribute", how = ", in h5py with del ";
    if (info.classes != 0 && !info.class_names.empty())
        return {problem + "s '" + count + "' and '" + names + "' are for labels",
                "remove them" + how + remove(count) + ", " + remove(names)};
    const std::string& only = info.classes != 0 ? count : names;
    return {problem + " '" + only + "' is for labels", "remove it" + how + remove(only)};
}

Violation kind_violation(const DatasetInfo& info) {
    if (info.target_kind.empty()) return {};
    const std::string kind = "'" + std::string(target_kind_attribute) + "'";
    const std::string remove =
        "remove it, in h5py with del file.attrs[" + kind + "], where targets are numbers by themselves";
    if (!info.has_segments())
        return {kind + " is '" + info.target_kind + "', but this program knows only '" +
                    target_kinds::segments + "'",
                remove};
    const Shape& shape = info.sample_shape;
    if (info.dtype == DType::f32 && shape.rank() == 2 && info.targets % 2 == 0 &&
        info.targets / 2 == shape[0])
        return {};
    return {"samples " + to_string(shape) + " with " + std::to_string(info.targets) +
                (info.targets == 1 ? " target" : " targets") + " do not go with " + kind + " '" +
                target_kinds::segments + "', which is for sequences [T, F] with 2 T targets",
            "pack it again with: trainer pack features --sequences, or " + remove};
}

Violation target_violation(const DatasetInfo& info) {
    if (info.targets < 0)
        return {"the number of targets is " + std::to_string(info.targets), pack_targets_again()};
    if (info.targets > 0 && info.labelled)
        return {"samples have both labels and targets", pack_targets_again()};
    if (info.targets > 0 && (info.classes != 0 || !info.class_names.empty()))
        return left_over_of_labels(info);
    if (!info.target_names.empty() && static_cast<std::int64_t>(info.target_names.size()) != info.targets)
        return {"'target_names' has " + std::to_string(info.target_names.size()) +
                    " names, but samples have " + std::to_string(info.targets) +
                    (info.targets == 1 ? " target" : " targets"),
                give_all_names(target_names_attribute)};
    return kind_violation(info);
}

/// Of samples whose shape the schema allows.
Violation feature_violation(const DatasetInfo& info) {
    const std::int64_t features = info.sample_shape[info.sample_shape.rank() - 1];
    if (info.feature_names.empty() || static_cast<std::int64_t>(info.feature_names.size()) == features)
        return {};
    return {fmt::format("'{}' has {}, but samples have {}", feature_names_attribute,
                        counted(info.feature_names.size(), "name"), counted(features, "feature")),
            give_all_names(feature_names_attribute)};
}

std::string per_channel_violation(const std::string& what, const std::vector<float>& values,
                                  std::int64_t channels) {
    if (static_cast<std::int64_t>(values.size()) != channels)
        return "'" + what + "' has " + std::to_string(values.size()) + " entries, but samples have " +
               std::to_string(channels) + (channels == 1 ? " channel" : " channels");
    if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }))
        return "'" + what + "' has an entry that is not a finite number";
    return {};
}

std::string normalisation_violation(const DatasetInfo& info) {
    if (info.mean.empty() && info.std.empty()) return {};
    if (info.mean.empty() || info.std.empty()) return "one of 'mean' and 'std' is given without the other";
    const std::int64_t channels = info.sample_shape[info.sample_shape.rank() - 1];
    std::string found = per_channel_violation(mean_attribute, info.mean, channels);
    if (found.empty()) found = per_channel_violation(std_attribute, info.std, channels);
    if (found.empty() && *std::min_element(info.std.begin(), info.std.end()) <= 0.0F)
        return "'std' has an entry that is not positive";
    if (found.empty() && info.sample_shape.rank() == 2 && (info.mean.back() != 0 || info.std.back() != 1))
        return fmt::format(
            "the last feature of a sequence says whether a step exists, but 'mean' and 'std' end with {} and "
            "{}, not 0 and 1",
            info.mean.back(), info.std.back());
    return found;
}

std::string general_violation(const DatasetInfo& info) {
    if (info.samples < 0) return "the number of samples is " + std::to_string(info.samples);
    const bool images = info.dtype == DType::u8 && info.sample_shape.rank() == 3;
    const bool features =
        info.dtype == DType::f32 && (info.sample_shape.rank() == 1 || info.sample_shape.rank() == 2);
    if (!images && !features)
        return "samples are " + std::string(name_of(info.dtype)) + " of shape " +
               to_string(info.sample_shape) +
               ", but must be u8 images [H, W, C], f32 features [F] or f32 sequences [T, F]";
    if (info.frames < 0 || (info.frames > 0 && (!images || info.sample_shape[2] % info.frames != 0)))
        return fmt::format("'frames' is {}, but samples have the shape {}, which are no clips of that many",
                           info.frames, to_string(info.sample_shape));
    for (const std::int64_t dim : info.sample_shape)
        if (dim < 1) return "samples have the shape " + to_string(info.sample_shape) + ", with nothing in it";
    if (!fits_in_64_bits(info)) return "the data would be larger than 2^63 bytes";
    const bool says_classes = info.labelled || info.classes != 0;
    if (says_classes && info.classes < 1)
        return "'classes' is " + std::to_string(info.classes) + ", but must be 1 or more";
    // So many that counts of each, of 8 bytes, fit into memory.
    if (constexpr std::int64_t most = 100'000'000; info.classes > most)
        return "'classes' is " + std::to_string(info.classes) + ", but must be at most " +
               std::to_string(most);
    if (says_classes && !info.class_names.empty() &&
        static_cast<std::int64_t>(info.class_names.size()) != info.classes)
        return "'class_names' has " + std::to_string(info.class_names.size()) + " names, but 'classes' is " +
               std::to_string(info.classes);
    return normalisation_violation(info);
}

}  // namespace

Violation violation(const DatasetInfo& info) {
    if (Violation found = target_violation(info)) return found;
    std::string problem = general_violation(info);
    if (problem.empty()) return feature_violation(info);
    return {std::move(problem), info.targets > 0 ? pack_targets_again() : pack_again()};
}

std::string label_outside(std::int64_t label, std::int64_t classes) {
    return "label " + std::to_string(label) + ", but the file says " + std::to_string(classes) +
           (classes == 1 ? " class (0)" : " classes (0.." + std::to_string(classes - 1) + ")");
}

std::string target_not_finite(const DatasetInfo& info, std::int64_t target, float value) {
    const auto at = static_cast<std::size_t>(target);
    return "the value " + std::to_string(value) + " as target " + std::to_string(target) +
           (at < info.target_names.size() ? " (" + info.target_names[at] + ")" : "");
}

std::string pack_again() {
    return "pack it again with: trainer pack idx, images, clips, features or csv; or correct what wrote it "
           "by "
           "the schema in data/README.md";
}

std::string pack_targets_again() {
    return "pack it again with: trainer pack csv --csv TABLE.csv --target COLUMNS -o FILE.h5 (or see "
           "data/README.md for images, clips and sequences, and for the schema to write it by)";
}

void fail(const std::string& path, const std::string& problem, const std::string& remedy) {
    throw DataError(path + ": " + problem, remedy);
}

}  // namespace tutti::schema
