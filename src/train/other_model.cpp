#include "tutti/train/other_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <vector>

#include "tutti/base/error.hpp"
#include "tutti/base/model_differences.hpp"
#include "tutti/base/units.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/checkpoint.hpp"

namespace tutti {

std::string other_model(const std::string& file, const Config& here) {
    std::vector<std::string> list;
    try {
        if (!is_checkpoint(file)) return {};
        Config then = parse_config(peek_checkpoint(file).config, file, {}), now = here;
        for (Config* config : {&then, &now}) config->model.layers = without_defaults(config->model.layers);
        list = model_differences(then, now);
    } catch (const Error&) {
        return {};  // the message that this is to begin says enough
    }
    if (list.empty()) return {};
    constexpr std::size_t most = 4;  // of two kinds of models all differ
    const std::size_t others = list.size() - std::min(list.size(), most);
    return fmt::format("{}{}: ", fmt::join(std::span(list).first(list.size() - others), ", "),
                       others > 0 ? " and " + counted(others, "other setting") : "");
}

}  // namespace tutti
