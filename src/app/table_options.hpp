#pragma once
// The options of packers that read a table: --target and --keep.

#include <string>
#include <vector>

#include "option_parser.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {

/// The parser writes here, so it must not live longer.
struct TableOptions {
    std::vector<std::string> targets, keep;

    ParserOption add_target(OptionParser& parser);
    ParserOption add_keep(OptionParser& parser);
    /// UsageError: a --keep that is not COLUMN=VALUE.
    std::vector<KeptValue> kept_values() const;
    /// UsageError where names of classes are given for targets.
    void refuse(const std::vector<std::string>& class_names) const;
};

/// For the end of the line that tells what was packed: "; 3 rows were …", or nothing.
std::string text_of(const LeftOutRows& rows);

}  // namespace tutti
