#include "table_options.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstddef>
#include <system_error>

#include "tutti/base/error.hpp"
#include "tutti/base/units.hpp"

namespace tutti {

ParserOption TableOptions::add_target(OptionParser& parser) {
    return parser
        .add_option("--target", targets,
                    "in place of labels: names of the columns with the numbers that a model is to give, "
                    "separated by commas; rows in which one is empty or not finite are left out and counted")
        .delimiter(',');
}

ParserOption TableOptions::add_target_pixels(OptionParser& parser) {
    return parser
        .add_option(
            "--target-pixels", target_pixels,
            "columns of --target that are x (to the right) and y (down) of a place in the image, in its "
            "pixels: X,Y or X1,Y1,X2,Y2 ...; they are stored as pixels of the sample, which --size "
            "scales")
        .delimiter(',');
}

ParserOption TableOptions::add_fill_targets(OptionParser& parser) {
    return parser.add_option("--fill-targets", fill_targets,
                             "number to store for a target that is empty or not finite, as it is, instead of "
                             "leaving the row out; with --target-pixels for whole places only");
}

ParserOption TableOptions::add_delimiter(OptionParser& parser) {
    return parser.add_option("--delimiter", delimiter, "one character between fields, or tab").show_default();
}

ParserOption TableOptions::add_keep(OptionParser& parser) {
    return parser
        .add_option("--keep", keep,
                    "COLUMN=VALUE: pack only rows that have this value in this column (1 and 1.0 are one "
                    "value), and count the rest; given several times: one of the values of each column")
        .one_word_each();
}

std::vector<KeptValue> TableOptions::kept_values() const {
    std::vector<KeptValue> values;
    for (const std::string& text : keep) {
        const std::size_t sign = text.find('=');
        if (sign == std::string::npos || sign == 0)
            throw UsageError("--keep " + text + " names no column and value", "write --keep COLUMN=VALUE");
        values.push_back({text.substr(0, sign), text.substr(sign + 1)});
    }
    return values;
}

std::optional<float> TableOptions::fill() const {
    if (fill_targets.empty()) return std::nullopt;
    float value = 0;
    const char* const end = fill_targets.data() + fill_targets.size();
    const auto [rest, status] = std::from_chars(fill_targets.data(), end, value);
    if (status != std::errc() || rest != end || !std::isfinite(value))
        throw UsageError("--fill-targets " + fill_targets + " is not a finite number of 32 bits",
                         "give a number, for example 0");
    return value;
}

char TableOptions::delimiter_character() const {
    if (delimiter == "tab" || delimiter == "\\t") return '\t';
    if (delimiter.size() != 1 || delimiter == "\"" || delimiter == "\n")
        throw UsageError("--delimiter " + delimiter + " is not one character", "write , or ; or tab");
    return delimiter.front();
}

void TableOptions::refuse(const std::vector<std::string>& class_names) const {
    if (!targets.empty() && !class_names.empty())
        throw UsageError("--class-names names the classes of labels, and with --target there are none",
                         "leave it out");
}

std::string text_of(const RowCounts& rows) {
    std::string text;
    if (rows.not_kept > 0)
        text += fmt::format("; {} left out by --keep", counted(rows.not_kept, "row was", "rows were"));
    if (rows.without_target > 0)
        text += fmt::format("; {} left out for an empty or not finite target",
                            counted(rows.without_target, "row was", "rows were"));
    if (rows.filled > 0)
        text += fmt::format("; in {} --fill-targets stands for an empty or not finite target",
                            counted(rows.filled, "row"));
    if (rows.outside > 0)
        text += fmt::format("; in {} the place is outside of the sample", counted(rows.outside, "row"));
    return text;
}

}  // namespace tutti
