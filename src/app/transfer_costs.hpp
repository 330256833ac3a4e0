#pragma once
// What all-reduces of the gradients cost on these ranks, for bench buckets.

#include <vector>

#include "tutti/base/log.hpp"
#include "tutti/comm/all_reduce_bench.hpp"
#include "tutti/comm/communicator.hpp"
#include "tutti/comm/cost_model.hpp"
#include "tutti/device/device.hpp"
#include "tutti/train/processor_cost.hpp"

namespace tutti {

struct TransferCosts {
    std::vector<AllReduceRow> rows;  ///< ascending by bytes
    CostModel cost;                  ///< fitted to them
    double empty_transfer = 0;       ///< seconds of one without bytes
    double least = 0;                ///< seconds of all bytes at best, in one transfer or in parts at once
    ProcessorCost processor;         ///< what transfers take from the computation; 0 where not measured
};

struct TransferMeasurement {
    Communicator &gradients, &control;
    Device& device;
    TensorView arena;  ///< whose buckets are to be sent: transfers of up to as many bytes are timed
    bool on_gpu;
    bool compressed;  ///< distributed.compress is bf16
    bool computes;    ///< ranks compute while they send; a replay waits instead
    bool across;      ///< by the schedule across steps
    Log& log;
};

/// Of several ranks. Collective; the same on every rank. Throws AgreedError where a rank was asked to stop.
TransferCosts measure_transfers(const TransferMeasurement& given);

}  // namespace tutti
