#pragma once
// The options of a subcommand. CLI11 parses them, out of sight: its headers take seconds to compile.

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tutti {

/// An option of an OptionParser, which owns it: a view, copied freely, good as long as the parser. Each
/// function says something more of the option and returns it again.
class ParserOption {
  public:
    explicit ParserOption(CLI::Option& option) : option_(&option) {}

    ParserOption required() const;
    /// The help shows what the variable holds now.
    ParserOption show_default() const;
    ParserOption type_name(const std::string& name) const;
    /// The values of a list stand in one word, with this between them.
    ParserOption delimiter(char character) const;
    /// Takes `least` to `most` words.
    ParserOption expected(int least, int most) const;
    /// Of a list: one word each time the option is given.
    ParserOption one_word_each() const;
    ParserOption needs(ParserOption other) const;
    ParserOption needed_by(ParserOption other) const;
    ParserOption excludes(ParserOption other) const;

    ParserOption in_range(int least, int most) const;
    ParserOption one_of(std::initializer_list<int> values) const;
    ParserOption not_negative() const;
    /// For int64: CLI11 by itself takes the largest one for a number beyond 64 bits.
    ParserOption whole_number() const;

    /// Whether the parsed command line has it.
    bool given() const;

  private:
    CLI::Option* option_;
};

/// Names, in lower case, with what each stands for.
template <class T>
using Choices = std::vector<std::pair<std::string, T>>;

class OptionParser {
  public:
    /// `name`: "trainer bench step".
    OptionParser(const std::string& description, const std::string& name);
    ~OptionParser();
    OptionParser(const OptionParser&) = delete;
    OptionParser& operator=(const OptionParser&) = delete;

    /// `names`: "-c,--config", or without dashes the word that stands by itself. `value` must outlive the
    /// parsing, which writes it. For the types at the end of option_parser.cpp.
    template <class T>
    ParserOption add_option(const std::string& names, T& value, const std::string& help);
    /// Of files or folders: ~/ is the home directory, and a variable that no shell has replaced is refused,
    /// as in settings (expanded_path). For strings and lists of strings.
    template <class T>
    ParserOption add_path(const std::string& names, T& value, const std::string& help);
    /// One of `choices`, by name, in capitals or not. For the types at the end of option_parser.cpp.
    template <class T>
    ParserOption add_choice(const std::string& names, T& value, const std::string& help,
                            const Choices<T>& choices);
    ParserOption add_flag(const std::string& names, bool& value, const std::string& help);
    /// Text below the help.
    void footer(const std::string& text);

    CLI::App& cli() { return *app_; }
    const CLI::App& cli() const { return *app_; }

  private:
    std::unique_ptr<CLI::App> app_;
};

}  // namespace tutti
