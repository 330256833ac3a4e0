#include "step_report.hpp"

#include <algorithm>

#include "spread_json.hpp"
#include "tutti/train/schedule_choice.hpp"

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

Json gemm_json(const StepReport& report) {
    Json sizes = Json::array();
    for (const StepReport::Product& product : report.products)
        sizes.push_back({{"n", product.n}, {"flops_per_second", product.rate}});
    return {{"threads", report.threads},
            {"sizes", sizes},
            {"flops_per_second", report.peak()},
            {"share", report.flops_per_second() / report.peak()}};
}

Json layers_json(const StepReport& report) {
    Json rows = Json::array();
    for (const LayerRow& row : layer_rows(report)) {
        Json output = Json::array();
        for (const std::int64_t size : row.layer->output) output.push_back(size);
        rows.push_back({{"name", row.layer->name},
                        {"kind", row.layer->kind},
                        {"output", output},
                        {"parameters", row.layer->parameters},
                        {"forward_flops", row.layer->forward_flops},
                        {"backward_flops", row.layer->backward_flops},
                        {"forward", row.forward},
                        {"backward", row.backward},
                        {"flops_per_second", row.rate},
                        {"share_of_peak", row.share_of_peak},
                        {"share_of_step", row.share_of_step}});
    }
    return rows;
}

Json flops_json(const StepReport& report) {
    double forward = 0, backward = 0;
    for (const Graph::LayerReport& layer : report.layers) {
        forward += layer.forward_flops;
        backward += layer.backward_flops;
    }
    return {{"forward", forward}, {"backward", backward}};
}

}  // namespace

double StepReport::samples_per_step() const {
    return static_cast<double>(batch_size * accumulate * world_size());
}

double StepReport::flops_per_sample() const {
    double flops = 0;
    for (const Graph::LayerReport& layer : layers) flops += layer.forward_flops + layer.backward_flops;
    return flops;
}

double StepReport::peak() const {
    return std::ranges::max_element(products, {}, &Product::rate)->rate;
}

std::vector<LayerRow> layer_rows(const StepReport& report) {
    const auto batch = static_cast<double>(report.batch_size);
    const double peak = report.peak() / report.world_size(), step = report.step().median;
    std::vector<LayerRow> rows;
    for (std::size_t i = 0; i < report.layers.size(); ++i) {
        const Graph::LayerReport& layer = report.layers[i];
        LayerRow row{&layer, report.profile.layer_forward[i], report.profile.layer_backward[i], 0, 0, 0};
        const double seconds = row.forward + row.backward;
        if (seconds > 0) row.rate = batch * (layer.forward_flops + layer.backward_flops) / seconds;
        row.share_of_peak = row.rate / peak;
        row.share_of_step = seconds * static_cast<double>(report.accumulate) / step;
        rows.push_back(row);
    }
    return rows;
}

Json to_json(const StepReport& report) {
    return {{"benchmark", "step"},
            {"provenance", report.provenance},
            {"model", report.model},
            {"precision", report.precision},
            {"data", report.data},
            {"batch_size", report.batch_size},
            {"accumulate", report.accumulate},
            {"warmup", report.warmup},
            {"all_reduce_path", report.all_reduce_path},
            {"schedule", name_of_schedule(report.across)},
            {"cuda_graph", {{"ran", report.cuda_graph}, {"why_not", report.why_no_cuda_graph}}},
            {"step", spread_json(report.step())},
            {"steps", report.steps},
            {"samples_per_second", report.samples_per_second()},
            {"flops_per_sample", flops_json(report)},
            {"flops_per_second", report.flops_per_second()},
            {"gemm", gemm_json(report)},
            {"slowest_rank", report.slowest_rank},
            {"account",
             {{"data", report.account.data},
              {"forward", report.account.forward},
              {"backward", report.account.backward},
              {"exposed_communication", report.account.exposed},
              {"optimizer", report.account.optimizer},
              {"other", report.account.other}}},
            {"update",
             {{"bytes", report.update.bytes},
              {"bytes_per_second", report.update_rate()},
              {"pass_bytes_per_second", report.update.pass_rate},
              {"share", report.update_share()}}},
            {"page_faults_per_step", report.page_faults},
            {"layers", layers_json(report)},
            {"loss", {{"forward", report.profile.loss_forward}, {"backward", report.profile.loss_backward}}}};
}

}  // namespace tutti
