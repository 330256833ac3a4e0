#include "plan_options.hpp"

#include "option_parser.hpp"

namespace tutti {

void PlanOptions::add_to(OptionParser& parser) {
    parser.add_option("--bucket-mb", sizes, "MiB, the sizes of the policy ddp").show_default();
    parser.add_option("--policies", policies, "which bucket policies").show_default();
}

PlanRequest PlanOptions::request() const {
    PlanRequest request;
    request.policies = parse_policies(policies, "--policies");
    request.bucket_mb = parse_bucket_sizes(sizes, "--bucket-mb");
    return request;
}

}  // namespace tutti
