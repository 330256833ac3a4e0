#include "table_options.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "tutti/base/error.hpp"

namespace tutti {

ParserOption TableOptions::add_target(OptionParser& parser) {
    return parser
        .add_option("--target", targets,
                    "in place of labels: names of the columns with the numbers that a model is to give, "
                    "separated by commas; rows in which one is empty or not finite are left out and counted")
        .delimiter(',');
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

void TableOptions::refuse(const std::vector<std::string>& class_names) const {
    if (!targets.empty() && !class_names.empty())
        throw UsageError("--class-names names the classes of labels, and with --target there are none",
                         "leave it out");
}

std::string text_of(const LeftOutRows& rows) {
    std::string text;
    if (rows.not_kept > 0) text += fmt::format("; {} rows were left out by --keep", rows.not_kept);
    if (rows.without_target > 0)
        text += fmt::format("; {} rows were left out for an empty or not finite target", rows.without_target);
    return text;
}

}  // namespace tutti
