// What bench step makes of its measurements, against numbers by hand.
#include "step_report.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

/// Two ranks of 4 samples, twice a step: a layer of 30 operations a sample and one of none.
StepReport report() {
    StepReport report;
    report.provenance = {{"world_size", 2}, {"device", "cpu"}};
    report.batch_size = 4;
    report.accumulate = 2;
    report.steps = {5, 2, 4};
    report.layers = {{"fc", "linear", {3}, 12, 0, 10, 20}, {"relu", "relu", {3}, 0, 0, 0, 0}};
    report.profile.layer_forward = {0.5, 0.25};
    report.profile.layer_backward = {1, 0};
    report.products = {{8, 100}, {16, 240}, {32, 200}};
    report.threads = 2;
    return report;
}

TEST(StepReport, RatesAreOfAllRanksAndTheMedianStep) {
    EXPECT_EQ(report().samples_per_step(), 16);
    EXPECT_EQ(report().samples_per_second(), 4);
    EXPECT_EQ(report().flops_per_sample(), 30);
    EXPECT_EQ(report().flops_per_second(), 120);
    EXPECT_EQ(report().peak(), 240);
    const auto json = to_json(report());
    EXPECT_EQ(json["gemm"]["share"], 0.5);
    EXPECT_EQ(json["step"]["max"], 5);
    EXPECT_EQ(json["flops_per_sample"]["backward"], 20);
}

TEST(StepReport, ALayersShareIsOfOneRanksPeakAndOfAllMicroBatches) {
    const StepReport all = report();
    const auto rows = layer_rows(all);
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[0].rate, 4 * 30 / 1.5);
    EXPECT_DOUBLE_EQ(rows[0].share_of_peak, 80.0 / 120);
    EXPECT_DOUBLE_EQ(rows[0].share_of_step, 2 * 1.5 / 4);
    EXPECT_EQ(rows[1].rate, 0);
    EXPECT_DOUBLE_EQ(rows[1].share_of_step, 2 * 0.25 / 4);
}

TEST(StepReport, AnUpdateIsComparedWithAPassOverMemory) {
    StepReport all = report();
    EXPECT_EQ(all.update_rate(), 0);  // a step without an update of its own
    EXPECT_EQ(all.update_share(), 0);
    all.account.optimizer = 0.5;
    all.update = {30e9, 80e9};
    all.page_faults = 0.25;
    EXPECT_EQ(all.update_rate(), 60e9);
    EXPECT_EQ(all.update_share(), 0.75);
    const auto json = to_json(all);
    EXPECT_EQ(json["update"]["bytes_per_second"], 60e9);
    EXPECT_EQ(json["update"]["share"], 0.75);
    EXPECT_EQ(json["page_faults_per_step"], 0.25);
    const std::string text = to_text(all);
    for (const char* words : {"30000.0 MB at 60.0 GB/s = 75.0 %", "page faults 0.25 a step"})
        EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
}

TEST(StepReport, TheTableNamesLayersAndParts) {
    StepReport all = report();
    all.all_reduce_path = "MPI";
    EXPECT_NE(to_text(all).find("transfers  within steps, all-reduce: MPI\n"), std::string::npos);
    EXPECT_EQ(to_json(all)["schedule"], "within steps");
    all.across = true;
    EXPECT_EQ(to_json(all)["schedule"], "across steps");
    const std::string text = to_text(all);
    for (const char* words :
         {"transfers  across steps", "2 ranks", "x 2 micro-batches", "4000.000 ms (2000.000 - 5000.000)",
          "50.0 %", "exposed communication", "fc ", "relu "})
        EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
}

}  // namespace
}  // namespace tutti
