#include "option_parser.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/base/expanded_path.hpp"
#include "tutti/input/fit.hpp"

namespace tutti {

ParserOption ParserOption::required() const {
    option_->required();
    return *this;
}

ParserOption ParserOption::show_default() const {
    option_->capture_default_str();
    return *this;
}

ParserOption ParserOption::type_name(const std::string& name) const {
    option_->type_name(name);
    return *this;
}

ParserOption ParserOption::delimiter(char character) const {
    option_->delimiter(character);
    return *this;
}

ParserOption ParserOption::expected(int least, int most) const {
    option_->expected(least, most);
    return *this;
}

ParserOption ParserOption::one_word_each() const {
    option_->allow_extra_args(false);
    return *this;
}

ParserOption ParserOption::needs(ParserOption other) const {
    option_->needs(other.option_);
    return *this;
}

ParserOption ParserOption::needed_by(ParserOption other) const {
    other.option_->needs(option_);
    return *this;
}

ParserOption ParserOption::excludes(ParserOption other) const {
    option_->excludes(other.option_);
    return *this;
}

ParserOption ParserOption::in_range(int least, int most) const {
    option_->check(CLI::Range(least, most));
    return *this;
}

ParserOption ParserOption::one_of(std::initializer_list<int> values) const {
    option_->check(CLI::IsMember(values));
    return *this;
}

ParserOption ParserOption::not_negative() const {
    option_->check(CLI::Validator(
        [](std::string& text) -> std::string {
            double value = 0;
            if (!CLI::detail::lexical_cast(text, value)) return text + " is not a number";
            return value >= 0 ? std::string() : text + " is not a number of at least 0";
        },
        ""));
    return *this;
}

ParserOption ParserOption::whole_number() const {
    option_->check(CLI::Validator(
        [](std::string& text) -> std::string {
            std::int64_t value = 0;
            const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (status == std::errc() && rest == text.data() + text.size()) return {};
            return text + " is not an integer of 64 bits";
        },
        ""));
    return *this;
}

bool ParserOption::given() const {
    return option_->count() > 0;
}

OptionParser::OptionParser(const std::string& description, const std::string& name)
    : app_(std::make_unique<CLI::App>(description, name)) {}

OptionParser::~OptionParser() = default;

template <class T>
ParserOption OptionParser::add_option(const std::string& names, T& value, const std::string& help) {
    return ParserOption(*app_->add_option(names, value, help));
}

template <class T>
ParserOption OptionParser::add_path(const std::string& names, T& value, const std::string& help) {
    CLI::Option& option = *app_->add_option(names, value, help);
    option.transform(CLI::Validator(
        [name = option.get_name()](std::string& path) -> std::string {
            path = expanded_option(name, path);
            return {};
        },
        ""));
    return ParserOption(option);
}

template <class T>
ParserOption OptionParser::add_choice(const std::string& names, T& value, const std::string& help,
                                      const Choices<T>& choices) {
    const auto joined = [&](const char* between) {
        std::string text;
        for (const auto& [name, choice] : choices) text += (text.empty() ? "" : between) + name;
        return text;
    };
    // CLI11 reads an enumeration as its number; by this alone numbers are no names.
    const auto number_of = [choices, known = joined(", ")](std::string& text) -> std::string {
        std::string lower = text;
        std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
        for (const auto& [name, choice] : choices) {
            if (name != lower) continue;
            text = std::to_string(static_cast<int>(choice));
            return {};
        }
        return "use one of " + known + ", not " + text;
    };
    return ParserOption(*app_->add_option(names, value, help)
                             ->transform(CLI::Validator(number_of, ""))
                             ->type_name(joined("|")));
}

ParserOption OptionParser::add_flag(const std::string& names, bool& value, const std::string& help) {
    return ParserOption(*app_->add_flag(names, value, help));
}

void OptionParser::footer(const std::string& text) {
    app_->footer(text);
}

template ParserOption OptionParser::add_option(const std::string&, std::string&, const std::string&);
template ParserOption OptionParser::add_option(const std::string&, int&, const std::string&);
template ParserOption OptionParser::add_option(const std::string&, std::int64_t&, const std::string&);
template ParserOption OptionParser::add_option(const std::string&, std::size_t&, const std::string&);
template ParserOption OptionParser::add_option(const std::string&, double&, const std::string&);
template ParserOption OptionParser::add_option(const std::string&, std::vector<std::string>&,
                                               const std::string&);
template ParserOption OptionParser::add_option(const std::string&, std::vector<std::int64_t>&,
                                               const std::string&);
template ParserOption OptionParser::add_option(const std::string&, std::vector<float>&, const std::string&);
template ParserOption OptionParser::add_path(const std::string&, std::string&, const std::string&);
template ParserOption OptionParser::add_path(const std::string&, std::vector<std::string>&,
                                             const std::string&);
template ParserOption OptionParser::add_choice(const std::string&, Backend&, const std::string&,
                                               const Choices<Backend>&);
template ParserOption OptionParser::add_choice(const std::string&, DeviceChoice&, const std::string&,
                                               const Choices<DeviceChoice>&);
template ParserOption OptionParser::add_choice(const std::string&, Fit&, const std::string&,
                                               const Choices<Fit>&);

}  // namespace tutti
