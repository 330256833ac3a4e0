#include "tutti/train/training_data.hpp"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "tutti/base/error.hpp"
#include "tutti/base/json_input.hpp"
#include "tutti/base/utf8.hpp"

namespace tutti {
namespace {

using Names = std::vector<std::string>;

constexpr const char* shape_key = "shape";
constexpr const char* labelled_key = "labelled";
constexpr const char* classes_key = "classes";
constexpr const char* class_names_key = "class_names";
constexpr const char* targets_key = "targets";
constexpr const char* target_names_key = "target_names";
constexpr const char* target_kind_key = "target_kind";
constexpr const char* feature_names_key = "feature_names";
constexpr const char* frames_key = "frames";

bool is_of(const Names& names, std::int64_t count) {
    return names.empty() || std::ssize(names) == count;
}

bool is_possible(const DatasetInfo& info) {
    const Shape& shape = info.sample_shape;
    return shape.rank() > 0 && std::ranges::all_of(shape, [](std::int64_t size) { return size > 0; }) &&
           info.classes >= 0 && info.targets >= 0 && info.frames >= 0 &&
           is_of(info.class_names, info.classes) && is_of(info.target_names, info.targets) &&
           (info.feature_names.empty() || is_of(info.feature_names, shape[shape.rank() - 1]));
}

/// Names of something else than `count` things are of no use: of classes, in a file that has no labels.
void add(nlohmann::ordered_json& json, const char* key, const Names& names, std::int64_t count) {
    if (!names.empty() && is_of(names, count) &&
        std::ranges::all_of(names, [](const std::string& name) { return is_utf8(name); }))
        json[key] = names;
}

void add(nlohmann::ordered_json& json, const char* key, std::int64_t count) {
    if (count > 0) json[key] = count;
}

DatasetInfo read_description(const nlohmann::json& json) {
    DatasetInfo info;
    const auto dims = json.at(shape_key).get<std::vector<std::int64_t>>();
    if (dims.empty() || dims.size() > Shape::max_rank) return {};
    info.sample_shape = Shape(dims);
    info.labelled = json.at(labelled_key).get<bool>();
    info.classes = json.value(classes_key, info.classes);
    info.class_names = json.value(class_names_key, Names());
    info.targets = json.value(targets_key, info.targets);
    info.target_names = json.value(target_names_key, Names());
    info.target_kind = json.value(target_kind_key, info.target_kind);
    info.feature_names = json.value(feature_names_key, Names());
    info.frames = json.value(frames_key, info.frames);
    return info;
}

}  // namespace

std::string training_data_to_json(const DatasetInfo& data) {
    nlohmann::ordered_json json;
    json[shape_key] = std::vector<std::int64_t>(data.sample_shape.begin(), data.sample_shape.end());
    json[labelled_key] = data.labelled;
    add(json, classes_key, data.classes);
    add(json, class_names_key, data.class_names, data.classes);
    add(json, targets_key, data.targets);
    add(json, target_names_key, data.target_names, data.targets);
    if (!data.target_kind.empty()) json[target_kind_key] = data.target_kind;
    add(json, feature_names_key, data.feature_names, data.sample_shape[data.sample_shape.rank() - 1]);
    add(json, frames_key, data.frames);
    return json.dump();
}

std::optional<DatasetInfo> training_data_from_json(const std::string& json, const std::string& source) {
    if (json.empty()) return {};
    try {
        const DatasetInfo info = read_description(json_or_discarded<nlohmann::json>(json));
        if (is_possible(info)) return info;
    } catch (const nlohmann::json::exception&) {  // said below
    }
    throw DataError(source + " does not say what it was trained on as checkpoints do: " + json_problem(json),
                    "use another checkpoint");
}

std::string doubt_about_names(const DatasetInfo& trained, const DatasetInfo& data, const std::string& name,
                              bool keeps_head) {
    if (const std::string features = other_features(trained.feature_names, data.feature_names,
                                                    "the weights of model.init_from were trained with");
        !features.empty())
        return name + " " + features + "; pack the data with the columns of these weights, in their order";
    if (!keeps_head || trained.classes != data.classes) return {};
    const std::string classes = other_class_name(trained.class_names, data.class_names,
                                                 "in the data that the weights of model.init_from are of");
    return classes.empty() ? "" : name + ": " + classes + "; the head begins with its weights";
}

}  // namespace tutti
