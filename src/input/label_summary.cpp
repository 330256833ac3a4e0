#include "tutti/input/label_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "tutti/base/fingerprint.hpp"

namespace tutti {

LabelSummary summarize_labels(const Dataset& data) {
    constexpr std::int64_t piece = 65536;
    const DatasetInfo& info = data.info();
    const std::array numbers{info.samples, data.stored_sample_bytes(), info.targets};
    std::uint64_t print = fingerprint(std::as_bytes(std::span(numbers)));
    bool first_class_empty = info.labelled && info.samples > 0;
    std::vector<std::int64_t> indices, labels;
    for (std::int64_t begin = 0; info.labelled && begin < info.samples; begin += piece) {
        indices.resize(static_cast<std::size_t>(std::min(piece, info.samples - begin)));
        labels.resize(indices.size());
        std::iota(indices.begin(), indices.end(), begin);
        data.read_labels(indices, labels);
        print = fingerprint(std::as_bytes(std::span(labels)), print);
        first_class_empty = first_class_empty && std::ranges::find(labels, 0) == labels.end();
    }
    print = fingerprint(std::as_bytes(data.targets()), print);
    return {fmt::format("{:016x}", print), first_class_empty};
}

std::string doubt_about_labels(const DatasetInfo& info, bool first_class_empty) {
    const bool numbered = info.class_names.empty() || info.class_names.front() == "0";
    if (!first_class_empty || !numbered || info.classes < 2) return {};
    return "no sample has the label 0: classes are counted from 0, and class 0 stays empty";
}

std::string remedy_for_labels(const DatasetInfo& info) {
    return fmt::format(
        "if these labels are counted from 1, subtract 1 in every file, in h5py with file[\"labels\"][:] -= 1 "
        "and, where the file has it, file.attrs[\"classes\"] = {}",
        info.classes - 1);
}

}  // namespace tutti
