#pragma once
// How the rows of the table of keys are written down.

#include <string>
#include <utility>
#include <vector>

#include "config_schema.hpp"

namespace tutti::config {

/// at(&Config::train, &TrainConfig::epochs): the way from a Config to one of its values.
template <class... Members>
auto at(Members... members) {
    return [=](auto& config) -> auto& {
        return (config.*....*members);
    };
}

inline const Config& defaults() {
    static const Config config;
    return config;
}

template <class Field, class T>
Row row(const char* path, Field field, const Kind<T>& kind, const char* help) {
    return {.path = path,
            .type = kind.type,
            .default_text = kind.print(field(defaults())),
            .help = help,
            .set = [=](const Setting& setting, Config& config) { field(config) = kind.parse(setting); },
            .print = [=](const Config& config) { return kind.print(field(config)); }};
}

inline Row default_is(const char* text, Row row) {
    row.default_text = text;
    return row;
}
/// owners: those that know the key.
inline Row only(std::vector<std::string> owners, Row row) {
    row.owners = std::move(owners);
    return row;
}

}  // namespace tutti::config
