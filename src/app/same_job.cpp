#include "same_job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <vector>

#include "tutti/base/error.hpp"
#include "tutti/base/fingerprint.hpp"

namespace tutti {
namespace {

std::string described(const DatasetInfo& info) {
    std::string text = fmt::format("{} samples {} of {}, {}", info.samples, to_string(info.sample_shape),
                                   name_of(info.dtype), describe_wanted(info));
    for (const std::string& name : info.class_names) text += " " + name;
    for (const std::string& name : info.target_names) text += " " + name;
    // Tables of genes have thousands, which tell no reader where two copies differ.
    constexpr std::size_t longest_list = 100;
    const std::string features = fmt::format("{}", fmt::join(info.feature_names, " "));
    if (info.feature_names.size() > longest_list)
        text += fmt::format(", features {} and others, which have the fingerprint {:016x}",
                            info.feature_names.front(), fingerprint(std::as_bytes(std::span(features))));
    else if (!features.empty())
        text += ", features " + features;
    for (std::size_t c = 0; c < info.mean.size(); ++c)
        text += fmt::format(", {} ± {}", info.mean[c], info.std[c]);
    return text;
}

/// Without what hosts may have of their own: where their copies of the data lie, how many threads read them,
/// what they say. Whether there are validation data stays: all ranks evaluate together.
Config of_the_job(Config config) {
    const Config usual;
    config.data.workers = usual.data.workers;
    config.data.prefetch = usual.data.prefetch;
    config.run.log_level = usual.run.log_level;
    for (std::vector<std::string>* files : {&config.data.train, &config.data.val})
        if (!files->empty()) *files = {"data"};
    for (std::string* file : {&config.data.latitudes, &config.data.longitudes})
        if (!file->empty()) *file = "data";
    return config;
}

}  // namespace

void require_same_settings(Communicator& world, const Config& config) {
    const Config own = of_the_job(config);
    const std::string of_rank_0 = broadcast_text(world, to_yaml(own), 0);
    together(world, "reading the config", [&] {
        if (to_yaml(own) == of_rank_0) return;
        std::string list;
        for (const std::string& difference : all_differences(parse_config(of_rank_0, "rank 0", {}), own))
            list += (list.empty() ? "" : ", ") + difference;
        throw UsageError("other settings than rank 0 (" + list + ")",
                         "start all ranks with the same command line and environment");
    });
}

void require_same_gpus(Communicator& world, const std::string& basis_of_bits) {
    const std::string of_rank_0 = broadcast_text(world, basis_of_bits, 0);
    together(world, "comparing the GPUs", [&] {
        if (basis_of_bits == of_rank_0) return;
        throw UsageError("run.deterministic is true, but this rank computes on " + basis_of_bits +
                             ", and rank 0 on " + of_rank_0 + ", whose bits may be others",
                         "start all ranks on GPUs of one model with the same driver and libraries, or set "
                         "device: cpu");
    });
}

LabelSummary require_same_data(Communicator& world, const Dataset& data, SameLabels how) {
    std::string mine;
    LabelSummary labels;
    together(world, "opening the data", [&] {
        mine = described(data.info());
        if (how == SameLabels::compared) labels = summarize_labels(data);
    });
    const std::string first = broadcast_text(world, mine, 0),
                      first_labels = broadcast_text(world, labels.fingerprint, 0);
    together(world, "opening the data", [&] {
        if (mine != first)
            throw DataError(data.name() + " is another file than on rank 0: " + mine + ", not " + first,
                            "bring the same file to every host");
        if (labels.fingerprint != first_labels)
            throw DataError(data.name() + " is another file than on rank 0: its " +
                                (data.info().targets > 0 ? "targets" : "labels") + " differ",
                            "bring the same file to every host");
    });
    return labels;
}

}  // namespace tutti
