#pragma once
// From YAML text and overrides to one setting per key, with the place where it was given.

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config_values.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/familiar_options.hpp"

namespace tutti::config {

/// What was given, before any value is read. All keys in it exist. Throws UsageError for unknown or repeated
/// keys, wrong nesting and text that is not YAML.
class Settings {
  public:
    Settings(std::string_view yaml_text, const std::string& source);
    /// "key=value"; replaces what was given before for the key or the whole section.
    void override_with(const std::string& argument);

    /// Once all is given: UsageError where another trainer's key still names a data set that is not packed.
    void refuse_lists() const;

    /// The setting of a key, or nullptr when it is not given.
    const Setting* find(const std::string& path) const;

    /// The name of another trainer that the file gives this key by; empty: by its own.
    std::string familiar_name(const std::string& path) const;
    /// Names of another trainer that keys of the file were given by.
    std::vector<std::string> familiar_names() const;

  private:
    void add_map(const YAML::Node& map, const std::string& section, const std::string& source);
    void add_familiar(const FamiliarOption& option, const Setting& setting, const std::string& source);
    void add_value(const Setting& setting, const std::string& source);
    std::map<std::string, Setting> by_path_;
    /// UsageError where keys were noted that stand for nothing here: all of them at once.
    void refuse_noted() const;
    std::map<std::string, std::string> familiar_names_;  ///< of keys given by another trainer's name
    std::vector<std::pair<const FamiliarOption*, std::string>> refused_;  ///< and where each was given
    std::map<std::string, UsageError> lists_;  ///< by our key: what is wrong with the data set named there
};

}  // namespace tutti::config
