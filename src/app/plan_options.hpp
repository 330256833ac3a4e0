#pragma once
// `--bucket-mb` and `--policies`: which bucket plans to look at.

#include <string>

#include "tutti/train/bench_plans.hpp"

namespace tutti {

class OptionParser;

struct PlanOptions {
    std::string sizes = "0.25,1,4,10,25,100", policies = "ddp,single,per_layer,cost_model";

    void add_to(OptionParser& parser);
    /// Of what was typed. Throws UsageError.
    PlanRequest request() const;
};

}  // namespace tutti
