#pragma once
// The table of all keys. Whatever has to know the keys asks it; there is no second list.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config_values.hpp"
#include "tutti/base/config.hpp"

namespace tutti::config {

/// What a model is called that is given by model.layers instead of by a name.
inline constexpr const char* layers_model = "layers";

/// One key.
struct Row {
    std::string path;  ///< "train.checkpoint.every"
    std::string type;
    std::string default_text;
    std::string help;
    std::function<void(const Setting&, Config&)> set;  ///< throws UsageError
    std::function<std::string(const Config&)> print;   ///< YAML in flow style
    std::vector<std::string> owners = {};  ///< the models or optimizers that know the key; empty: all
};

/// In the order of the reference and of the dump; keys of one section stand together, and a key that decides
/// about others (model.name, optim.name) comes before them.
const std::vector<Row>& rows();
/// The row of `path`, or nullptr.
const Row* find_row(std::string_view path);
/// Whether some key lies below `path`: true for "train" and "train.checkpoint".
bool is_section(std::string_view path);
/// Whether the key lies in `section`, "model" for example.
bool in_section(const Row& row, std::string_view section);
/// Whether the model or optimizer `owner` knows the key.
bool knows(const Row& row, std::string_view owner);
/// The name by which rows list the model of `config`: its own, or layers_model.
std::string model_of(const Config& config);

}  // namespace tutti::config
