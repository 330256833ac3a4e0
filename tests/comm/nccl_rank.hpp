#pragma once
// A rank of a job over NCCL, on fakes of NCCL and of its GPU; ranks are threads.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fake_nccl/fake_nccl.hpp"
#include "fake_nccl/fake_streams.hpp"
#include "nccl_communicator.hpp"
#include "thread_communicator.hpp"
#include "tutti/base/steady_seconds.hpp"

namespace tutti::test {

inline NcclSettings settings_of(int rank) {
    return {.timeout = 60, .host = "node" + std::to_string(rank), .now = steady_seconds};
}

/// What a rank has.
struct Rank {
    std::shared_ptr<FakeGpu> gpu = std::make_shared<FakeGpu>();
    std::unique_ptr<Communicator> data;
    std::shared_ptr<FakeNccl> nccl;

    Rank(Communicator& world, NcclScript script)
        : data(world.duplicate()), nccl(std::make_shared<FakeNccl>(*data, std::move(script))) {}

    std::unique_ptr<Communicator> communicator(Communicator& world, const NcclSettings& settings) {
        return make_nccl_communicator(nccl, std::make_shared<FakeSideStream>(gpu), world.duplicate(),
                                      settings);
    }
    std::unique_ptr<Communicator> communicator(Communicator& world) {
        return communicator(world, settings_of(world.rank()));
    }
};

/// What one rank throws in `work` with this script.
template <class Work>
std::string failure(const NcclScript& script, const NcclSettings& settings, const Work& work) {
    std::string message = "no error";
    run_on_threads(1, [&](Communicator& world) {
        Rank rank(world, script);
        try {
            const auto communicator = rank.communicator(world, settings);
            work(*communicator, rank);
        } catch (const Error& error) {
            message = "exit " + std::to_string(static_cast<int>(error.code())) + ": " + error.what();
        }
    });
    return message;
}
inline std::string failure_of_all_reduce(const NcclScript& script, const NcclSettings& settings) {
    return failure(script, settings, [](Communicator& communicator, Rank&) {
        std::vector<float> values(8);
        communicator.all_reduce(view_of(std::span(values)), ReduceOp::sum).wait();
    });
}
inline std::string failure_of_all_reduce(const NcclScript& script) {
    return failure_of_all_reduce(script, settings_of(0));
}

/// A second passes with every look at it.
inline NcclSettings impatient() {
    return {.timeout = 20, .host = "node7", .now = [time = 0.0]() mutable { return time += 1; }};
}

}  // namespace tutti::test
