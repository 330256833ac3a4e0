#include "requeue.hpp"

#include <nlohmann/json.hpp>

#include "tutti/base/atomic_file.hpp"
#include "tutti/base/json_input.hpp"
#include "tutti/train/run_directory.hpp"

namespace tutti {

bool has_saved_before_requeue(const Environment& environment, const std::string& run_directory) {
    const std::string restarts = text_of(environment, "SLURM_RESTART_COUNT"),
                      job = text_of(environment, "SLURM_JOB_ID");
    if (restarts.empty() || restarts == "0" || job.empty()) return false;
    const auto provenance =
        json_or_discarded<nlohmann::json>(file::content_or_nothing(run_directory + "/provenance.json"));
    return provenance.is_object() && provenance.value("slurm_job", nlohmann::json()) == job &&
           latest_checkpoint(run_directory).has_value();
}

}  // namespace tutti
