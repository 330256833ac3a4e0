#include "reading_memory.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tutti::test {
namespace {

class SizedData final : public Dataset {
  public:
    SizedData(std::uint64_t mapped, std::uint64_t brought_in) : mapped_(mapped), brought_in_(brought_in) {}
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "sized"; }
    void read(std::span<const std::int64_t>, std::span<std::byte>, std::span<std::int64_t>) const override {}
    std::uint64_t mapped_bytes() const override { return mapped_; }
    std::uint64_t brought_in_bytes() const override { return brought_in_; }
    std::size_t reading_bytes(std::int64_t samples) const override {
        return static_cast<std::size_t>(samples) * mapped_;
    }

  private:
    DatasetInfo info_;
    std::uint64_t mapped_, brought_in_;
};

Config with_workers(int workers) {
    Config config;
    config.data.workers = workers;
    config.train.batch_size = 10;
    return config;
}

TEST(BringInBytes, AreAPieceForEachThreadThatReadsAFileThatIsNotMapped) {
    constexpr std::size_t piece = std::size_t{16} << 20;
    const SizedData mapped(100, 100), brought_in(100, 300), as_needed(0, 0);
    EXPECT_EQ(bring_in_bytes(with_workers(2), mapped, &as_needed), 0U);
    EXPECT_EQ(bring_in_bytes(with_workers(0), brought_in, nullptr), piece);
    EXPECT_EQ(bring_in_bytes(with_workers(2), brought_in, nullptr), 3 * piece);
    EXPECT_EQ(bring_in_bytes(with_workers(2), brought_in, &mapped), 3 * piece);
    EXPECT_EQ(bring_in_bytes(with_workers(2), mapped, &brought_in), 3 * piece);
    EXPECT_EQ(bring_in_bytes(with_workers(2), brought_in, &brought_in), 5 * piece);
}

TEST(TransformBytes, AreABatchForEachThreadThatReads) {
    const SizedData train(100, 100), val(300, 300);
    EXPECT_EQ(transform_bytes(with_workers(0), train, nullptr, 1), 10U * 100);
    EXPECT_EQ(transform_bytes(with_workers(2), train, nullptr, 1), 3U * 10 * 100);
    EXPECT_EQ(transform_bytes(with_workers(2), train, &val, 1), 10U * (2 * (100 + 300) + 300));
}

}  // namespace
}  // namespace tutti::test
