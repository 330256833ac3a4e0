#include "config_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "config_schema.hpp"
#include "config_text.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/familiar_options.hpp"
#include "tutti/base/suggest.hpp"

namespace tutti::config {
namespace {

constexpr const char* command_line = Setting::command_line;

std::string leaf_of(const std::string& path) {
    return path.substr(path.rfind('.') + 1);
}
std::string section_of(const std::string& path) {
    const std::size_t dot = path.rfind('.');
    return dot == std::string::npos ? "" : path.substr(0, dot);
}

/// What stands directly in `section`: keys and sections by their last name. "" is the top level.
std::vector<std::string> names_in(const std::string& section) {
    const std::string begin = section.empty() ? "" : section + ".";
    std::vector<std::string> names;
    for (const Row& row : rows()) {
        if (!row.path.starts_with(begin)) continue;
        const std::string name =
            row.path.substr(begin.size(), row.path.find('.', begin.size()) - begin.size());
        if (names.empty() || names.back() != name) names.push_back(name);
    }
    return names;
}

/// The paths of all keys that end in `leaf`.
std::vector<std::string> paths_ending_in(const std::string& leaf) {
    std::vector<std::string> paths;
    for (const Row& row : rows())
        if (leaf_of(row.path) == leaf) paths.push_back(row.path);
    return paths;
}

/// The keys that the writer of an unknown one will have meant: the key's own letters with other marks between
/// them, the same name in another section, or what others call so.
std::vector<std::string> meant_by(const std::string& path) {
    if (std::string key = key_written_as(path); !key.empty()) return {key};
    std::vector<std::string> elsewhere = paths_ending_in(leaf_of(path));
    if (!elsewhere.empty()) return elsewhere;
    if (std::string key = key_called(leaf_of(path)); !key.empty()) return {key};
    return {};
}

bool is_known(const std::string& path) {
    return find_row(path) || is_section(path) || find_familiar_key(path) || is_familiar_section(path);
}

/// Of the keys in `value`, a map in a section that is called `section` here, those that are called otherwise,
/// too: ", with train.epochs for max_epochs".
std::string other_names_in(const YAML::Node& value, const std::string& section) {
    std::string names;
    if (!value.IsMap()) return names;
    for (const auto& entry : value) {
        if (!entry.first.IsScalar() || is_known(section + "." + entry.first.Scalar())) continue;
        const std::vector<std::string> meant = meant_by(section + "." + entry.first.Scalar());
        if (meant.empty()) continue;
        names += fmt::format("{}{} for {}", names.empty() ? ", with " : ", ", join(meant, " or "),
                             entry.first.Scalar());
    }
    return names;
}

/// What the writer of an unknown key may have meant: what it is called here, then a near name in this
/// section, then a near name anywhere.
std::string advice(std::string path, const YAML::Node& value) {
    const std::vector<std::string> meant = meant_by(path);
    if (meant == std::vector<std::string>{"schedule.warmup"})
        if (const std::string remedy = warm_up_remedy(value); !remedy.empty()) return remedy;
    if (!meant.empty()) return fmt::format("did you mean {}?", join(meant, " or "));

    const std::string given = path;
    // "trian.foo": the section is what has to be put right first.
    while (!section_of(path).empty() && !is_section(section_of(path))) path = section_of(path);
    const std::string section = section_of(path), leaf = leaf_of(path);
    const std::vector<std::string> here = names_in(section);
    std::string near = nearest(leaf, here);
    if (near.empty())  // "optimizer" for optim, "warmup" for warmup_epochs
        for (const std::string& name : here)
            if (name.size() > 2 && leaf.size() > 2 && (leaf.starts_with(name) || name.starts_with(leaf)))
                near = name;
    if (!near.empty()) {
        near = section.empty() ? near : section + "." + near;
        return fmt::format("did you mean {}{}?", near, path == given ? other_names_in(value, near) : "");
    }

    std::vector<std::string> leaves;
    for (const Row& row : rows()) leaves.push_back(leaf_of(row.path));
    static constexpr std::size_t shortest = 5;  // shorter words are near to anything
    near = leaf.size() < shortest ? "" : nearest(leaf, leaves);
    if (!near.empty()) return fmt::format("did you mean {}?", join(paths_ending_in(near), " or "));
    return fmt::format("the keys {}{} are: {}", section.empty() ? "at the top" : "of ", section,
                       join(here, ", "));
}

[[noreturn]] void unknown(const std::string& path, const std::string& where, const YAML::Node& value) {
    // "data.normalize.mean", "model.layers[0].conv2d": a key, and more behind it.
    for (const Row& row : rows())
        if (path.starts_with(row.path) && (path[row.path.size()] == '.' || path[row.path.size()] == '[')) {
            const std::string whole = whole_form(row.path, where);
            throw UsageError(fmt::format("{}: {} is not a key of its own", where, path),
                             fmt::format("set {} as a whole{}", row.path, whole.empty() ? "" : ": " + whole));
        }
    throw UsageError(fmt::format("{}: {} is not a known key", where, path), advice(path, value));
}

/// What YAML takes for a mark of its own at the beginning of a value: with nothing behind it the value is
/// none.
std::string mark_at_begin(const std::string& value) {
    for (const char* mark : {"---", "..."})
        if (value.starts_with(mark) && (value.size() == 3 || value[3] == ' ')) return mark;
    return value.empty() || std::string_view("%!&#").find(value.front()) == std::string_view::npos
               ? ""
               : value.substr(0, 1);
}

/// One file must not give a setting by two names; the command line overrides either.
void refuse_twice(const std::string& name, const std::string& other, const std::string& where,
                  const std::string& source) {
    if (name != other && source != command_line)
        throw UsageError(fmt::format("{}: {} and {} are the same setting", where, name, other),
                         "keep one of them");
}

std::string place(const std::string& source, const YAML::Mark& mark) {
    if (source == command_line || mark.is_null()) return source;
    return fmt::format("{}:{}", source, mark.line + 1);
}

/// Whether a tab stands before the first word of the line.
bool indents_with_tab(const std::string& text, const YAML::Mark& mark) {
    std::size_t begin = 0;
    for (int line = 0; line < mark.line && begin != std::string::npos; ++line) {
        begin = text.find('\n', begin);
        if (begin != std::string::npos) ++begin;
    }
    if (mark.is_null() || begin == std::string::npos) return false;
    const std::size_t word = text.find_first_not_of(" \t", begin);
    return text.substr(begin, word - begin).find('\t') != std::string::npos;
}

/// The one document in `text`; an empty text gives a null node. `key` is what it is the value of, if
/// anything.
YAML::Node load(const std::string& text, const std::string& source, const std::string& key = {}) {
    const std::string subject = key.empty() ? "" : ": " + key;
    try {
        const std::vector<YAML::Node> documents = YAML::LoadAll(text);
        if (documents.size() > 1)
            throw UsageError(source + subject + ": holds more than one YAML document",
                             "keep the first and remove the --- lines");
        return documents.empty() ? YAML::Node(YAML::NodeType::Null) : documents.front();
    } catch (const YAML::Exception& error) {
        const std::string remedy = error.msg == YAML::ErrorMsg::UNKNOWN_ANCHOR
                                       ? "quote what begins with * for YAML, as \"*.h5\", or write ./*.h5"
                                   : source == command_line ? "quote the value"
                                   : indents_with_tab(text, error.mark)
                                       ? "indent with spaces there, not with a tab"
                                       : "check the indentation and brackets there";
        throw UsageError(
            fmt::format("{}{}: not valid YAML: {}", place(source, error.mark), subject, error.msg), remedy);
    }
}

}  // namespace

Settings::Settings(std::string_view yaml_text, const std::string& source) {
    require_text(yaml_text, source);
    const YAML::Node root = load(std::string(yaml_text), source);
    if (root.IsNull()) return;
    if (!root.IsMap())
        throw UsageError(place(source, root.Mark()) + ": the file is not a map",
                         "begin it with sections such as data:, model: and train:");
    add_map(root, "", source);
    refuse_noted();
}

void Settings::add_map(const YAML::Node& map, const std::string& section, const std::string& source) {
    std::set<std::string> seen;
    for (const auto& entry : map) {
        const std::string where = place(source, entry.first.Mark());
        if (!entry.first.IsScalar())
            throw UsageError(
                fmt::format("{}: a key{}{} is not text", where, section.empty() ? "" : " in ", section),
                "write key: value");
        const std::string& name = entry.first.Scalar();
        const std::string path = section.empty() ? name : section + "." + name;
        if (name.find('.') != std::string::npos && find_row(path))
            throw UsageError(fmt::format("{}: {} is written with a dot", where, path),
                             fmt::format("write {} inside {}:", leaf_of(path), section_of(path)));
        if (!is_known(path)) unknown(path, where, entry.second);
        if (!seen.insert(name).second)
            throw UsageError(fmt::format("{}: {} is given twice", where, path), "keep one of them");
        add_value({path, where, entry.second}, source);
    }
}

void Settings::add_familiar(const FamiliarOption& option, const Setting& setting, const std::string& source) {
    using Meaning = FamiliarOption::Meaning;
    const bool has_value = !setting.node.IsNull();
    const bool fits =
        option.words.empty() ||
        (setting.node.IsScalar() && familiar_value(option, setting.node.Scalar(), setting.where).empty());
    if (option.meaning == Meaning::refused || (option.meaning == Meaning::needless && has_value && !fits)) {
        refused_.emplace_back(&option, setting.where);
        return;
    }
    if (option.meaning == Meaning::needless) {
        familiar_names_[option.name] = option.name;
        return;
    }
    if (find(option.target)) refuse_twice(option.name, option.target, setting.where, source);
    const bool is_text = setting.node.IsScalar();
    std::string value;
    lists_.erase(option.target);
    try {
        if (is_text) value = familiar_value(option, setting.node.Scalar(), setting.where);
    } catch (const UsageError& error) {
        // The command line may name another, which is packed.
        if (source == command_line) throw;
        lists_.emplace(option.target, error);
    }
    // What a word of theirs stands for may be a list.
    const bool is_word = is_text && !option.words.empty() && value != setting.node.Scalar();
    const YAML::Node node = is_word ? YAML::Load(value) : is_text ? YAML::Node(value) : setting.node;
    by_path_.erase(option.target);
    by_path_.emplace(option.target, Setting{option.target, setting.where, node});
    if (option.name != option.target) familiar_names_[option.target] = option.name;
}

void Settings::add_value(const Setting& setting, const std::string& source) {
    if (const FamiliarOption* const option = find_familiar_key(setting.path))
        return add_familiar(*option, setting, source);
    if (find_row(setting.path)) {
        if (const auto other = familiar_names_.find(setting.path); other != familiar_names_.end())
            refuse_twice(setting.path, other->second, setting.where, source);
        lists_.erase(setting.path);
        by_path_.erase(setting.path);
        by_path_.emplace(setting.path, setting);
        return;
    }
    if (setting.node.IsNull()) return;
    if (!setting.node.IsMap()) {
        const std::vector<std::string> names = names_in(setting.path);
        const bool may_be_name = setting.node.IsScalar() && !setting.node.Scalar().empty() &&
                                 std::ranges::find(names, "name") != names.end();
        setting.wrong("a map", may_be_name
                                   ? fmt::format("did you mean {}.name? Its keys are: {}", setting.path,
                                                 join(names, ", "))
                                   : fmt::format("the keys of {} are: {}", setting.path, join(names, ", ")));
    }
    add_map(setting.node, setting.path, source);
}

void Settings::override_with(const std::string& argument) {
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0)
        throw UsageError(fmt::format("{}: {} is not key=value", command_line, argument),
                         argument.ends_with(".yaml") || argument.ends_with(".yml")
                             ? "a config is given with -c: -c " + argument
                         : argument.ends_with(".h5") || argument.ends_with(".hdf5")
                             ? "a data set is trained on with data.train=" + argument
                             : "write for example train.epochs=5, without blanks around the =");
    const std::string path = argument.substr(0, equals);
    const std::string value = argument.substr(equals + 1);
    if (!is_known(path)) unknown(path, command_line, YAML::Node(value));

    if (const std::size_t comment = value.find(" #");
        comment != std::string::npos && value.find_first_of("'\"[{") > comment)
        throw UsageError(
            fmt::format("{}: {}: what begins with # in '{}' is a comment", command_line, path, value),
            fmt::format("quote the value for YAML, too: '{}=\"{}\"'", path, value));

    if (const std::string mark = mark_at_begin(value); !mark.empty())
        throw UsageError(fmt::format("{}: {}: '{}' begins with {}, which has a meaning of its own in YAML",
                                     command_line, path, value, mark),
                         fmt::format("quote the value for YAML, too: '{}=\"{}\"'", path, value));

    // YAML reads nothing as null; here it is an empty text, which only keys of text accept. And a name behind
    // * as that of an anchor, which no single value can have; here it is a pattern of files.
    const bool is_text = value.empty() || value.starts_with('*');
    const Setting setting{path, command_line, is_text ? YAML::Node(value) : load(value, command_line, path)};
    const auto is_below = [&path](const auto& entry) { return entry.first.starts_with(path + "."); };
    std::erase_if(by_path_, is_below);
    std::erase_if(lists_, is_below);
    add_value(setting, command_line);
    refuse_noted();
}

void Settings::refuse_noted() const {
    if (refused_.empty()) return;
    if (refused_.size() == 1)
        refuse_familiar(*refused_.front().first, refused_.front().first->name, refused_.front().second);
    std::vector<std::string> notes;
    for (const auto& [option, where] : refused_)
        if (std::ranges::find(notes, option->note) == notes.end()) notes.push_back(option->note);
    std::string list;
    for (const std::string& note : notes) {
        std::vector<std::string> names;
        std::string first;
        for (const auto& [option, where] : refused_) {
            if (option->note != note) continue;
            if (names.empty()) first = where;
            names.push_back(option->name);
        }
        list += fmt::format("{}{}: {} ({})", list.empty() ? "" : ", ", first, join(names, ", "), note);
    }
    throw UsageError(fmt::format("{} keys of another trainer ({}) are not taken over: {}", refused_.size(),
                                 refused_.front().first->from, list));
}

void Settings::refuse_lists() const {
    if (!lists_.empty()) throw lists_.begin()->second;
}

std::vector<std::string> Settings::familiar_names() const {
    std::vector<std::string> names;
    for (const auto& [key, name] : familiar_names_) names.push_back(name);
    return names;
}

std::string Settings::familiar_name(const std::string& path) const {
    const auto found = familiar_names_.find(path);
    return found == familiar_names_.end() ? "" : found->second;
}

const Setting* Settings::find(const std::string& path) const {
    const auto found = by_path_.find(path);
    return found == by_path_.end() ? nullptr : &found->second;
}

}  // namespace tutti::config
