#include "tutti/train/memory_statement.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tutti/base/memory_use.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

std::size_t bytes_of(const std::vector<MemoryItem>& items, const std::string& name) {
    const auto found =
        std::find_if(items.begin(), items.end(), [&](const MemoryItem& item) { return item.name == name; });
    return found == items.end() ? 0 : found->bytes;
}

class MemoryStatement : public ::testing::Test {
  protected:
    MemoryStatement() {
        config_.train.batch_size = 8;
        config_.optim.momentum = 0.9;
        info_.samples = 100;
        info_.sample_shape = {28, 28, 1};
        info_.classes = 10;
    }
    std::unique_ptr<Device> device_ = make_cpu_device(1);
    Config config_;
    DatasetInfo info_;
    Graph graph_{build_lenet({28, 28, 1}, 10), *device_, DType::f32, 8};
};

TEST_F(MemoryStatement, CountsEachPart) {
    const auto optimizer = make_optimizer(config_.optim, graph_, *device_);
    const auto items = state_memory(config_, graph_, *optimizer, info_, nullptr, 1);
    EXPECT_EQ(bytes_of(items, "parameters"), graph_.memory().parameters);
    EXPECT_EQ(bytes_of(items, "optimizer"), graph_.memory().parameters) << "the momentum";
    EXPECT_EQ(bytes_of(items, "loader"), 5U * 8 * (784 + 3 * 8) + 100 * 8) << "prefetch 4 and one in use";
    EXPECT_EQ(bytes_of(items, "communication"), 0U);
    EXPECT_EQ(bytes_of(items, "checkpoint"), 2 * graph_.memory().parameters);

    const auto with_val = state_memory(config_, graph_, *optimizer, info_, &info_, 2);
    EXPECT_EQ(bytes_of(with_val, "loader"), 2 * bytes_of(items, "loader"));
    EXPECT_EQ(bytes_of(with_val, "communication"), graph_.memory().gradients);
    EXPECT_GT(total_bytes(with_val), total_bytes(items));
}

TEST_F(MemoryStatement, TheLibrariesAreWhatTheProcessHasBesides) {
    EXPECT_GT(resident_bytes(), 0);
    EXPECT_GE(peak_resident_bytes(), resident_bytes());
    const std::size_t all = measured_library_bytes(graph_, *device_, 0);
    EXPECT_GE(all, graph_.memory().activations);
    EXPECT_EQ(measured_library_bytes(graph_, *device_, all + (std::size_t{1} << 40)), 0U);
}

}  // namespace
}  // namespace tutti
