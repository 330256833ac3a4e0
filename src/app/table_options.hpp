#pragma once
// The options of packers that read a table: --target, --keep, --delimiter and what goes with them.

#include <optional>
#include <string>
#include <vector>

#include "option_parser.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {

/// The parser writes here, so it must not live longer.
struct TableOptions {
    std::vector<std::string> targets, target_pixels, keep;
    std::string fill_targets, delimiter = ",";

    ParserOption add_target(OptionParser& parser);
    ParserOption add_target_pixels(OptionParser& parser);
    ParserOption add_fill_targets(OptionParser& parser);
    ParserOption add_keep(OptionParser& parser);
    ParserOption add_delimiter(OptionParser& parser);
    /// UsageError: a --keep that is not COLUMN=VALUE.
    std::vector<KeptValue> kept_values() const;
    /// None where --fill-targets is not given. UsageError: one that is not a finite number.
    std::optional<float> fill() const;
    /// UsageError: a --delimiter that is not one character, nor "tab".
    char delimiter_character() const;
    /// UsageError where names of classes are given for targets.
    void refuse(const std::vector<std::string>& class_names) const;
};

/// For the end of the line that tells what was packed: "; 3 rows were …", or nothing.
std::string text_of(const RowCounts& rows);

}  // namespace tutti
