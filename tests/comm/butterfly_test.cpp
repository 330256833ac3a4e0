#include "butterfly_check.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "combine.hpp"
#include "thread_communicator.hpp"
#include "tutti/device/device.hpp"

namespace tutti::test {
namespace {

TEST(ButterflySum, HasTheBitsOfTheTreeOnRanksThatAreThreads) {
    for (const int ranks : {1, 2, 3, 4, 8}) run_on_threads(ranks, expect_butterfly);
}

TEST(ButterflySum, OfOneRankIsWhatItHas) {
    std::vector<float> values{0.1F, -0.0F};
    butterfly_sum(*make_single_communicator(), view_of(std::span(values)));
    EXPECT_EQ(values[0], 0.1F);
    EXPECT_TRUE(std::signbit(values[1]));
}

TEST(ButterflySum, OfADevicesMemoryHasThoseBitsInPiecesOfAnySize) {
    constexpr std::size_t count = 1001;
    for (const int ranks : {1, 2, 4})
        for (const std::size_t bytes : {2 * sizeof(float), 3 * sizeof(float), std::size_t{1000},
                                        device_butterfly_bytes(count * sizeof(float))})
            run_on_threads(ranks, [&](Communicator& world) {
                const auto device = make_cpu_device(1);
                const Buffer received = device->allocate(bytes, "received");
                std::vector<float> values(count), expected(count);
                for (std::size_t i = 0; i < count; ++i) {
                    values[i] = inexact<float>(world.rank(), i);
                    expected[i] = tree_sum<float>(0, 1, ranks, i);
                }
                butterfly_sum(world, view_of(std::span(values)), received, device->ops(DType::f32));
                EXPECT_EQ(values, expected) << bytes << " bytes";
            });
}

TEST(ButterflySum, RefusesTypesThatItWouldNotAdd) {
    run_on_threads(2, [](Communicator& world) {
        std::vector<std::uint16_t> values(4, 0x3f80);
        const TensorView buffer{reinterpret_cast<std::byte*>(values.data()), DType::bf16, {4}};
        EXPECT_THROW(butterfly_sum(world, buffer), UsageError);
        EXPECT_EQ(values, std::vector<std::uint16_t>(4, 0x3f80));
        EXPECT_THROW(combine(buffer.data, buffer.data, buffer.data, 4, DType::bf16, ReduceOp::sum),
                     std::logic_error);
        EXPECT_THROW(combine(buffer.data, buffer.data, buffer.data, 4, DType::u8, ReduceOp::sum),
                     std::logic_error);
    });
}

/// Of a pair whose other rank is lost: what was to arrive may come when nobody waits any more.
class LatePair final : public Communicator {
  public:
    int rank() const override { return 0; }
    int size() const override { return 2; }
    std::string backend() const override { return "late"; }
    Work exchange(const TensorView&, const TensorView& receive, int) override {
        struct Lost final : Work::Transfer {
            bool test() override { return false; }
            void wait() override { throw PeerError("rank 1 is lost", "none"); }
        };
        late.push_back(receive);
        return Work(std::make_unique<Lost>());
    }
    Work all_reduce(const TensorView&, ReduceOp) override { return {}; }
    Work reduce_scatter(const TensorView&, const TensorView&, ReduceOp) override { return {}; }
    Work all_gather(const TensorView&, const TensorView&) override { return {}; }
    Work broadcast(const TensorView&, int) override { return {}; }
    void barrier() override {}
    std::unique_ptr<Communicator> duplicate() override { return std::make_unique<LatePair>(); }
    [[noreturn]] void abort(ExitCode) noexcept override { std::abort(); }

    std::vector<TensorView> late;
};

TEST(ButterflySum, KeepsMemoryThatAPeerMayWriteAfterAFailure) {
    LatePair pair;
    std::vector<float> values(300001, 1.0F);
    EXPECT_THROW(butterfly_sum(pair, view_of(std::span(values))), PeerError);
    ASSERT_EQ(pair.late.size(), 2U);
    // The address sanitizer tells of it where the memory has gone; without, new memory would lie there.
    std::vector<std::vector<std::byte>> others(8, std::vector<std::byte>(butterfly_bytes));
    for (const TensorView& view : pair.late) std::memset(view.data, 1, view.bytes());
    for (const auto& other : others) EXPECT_EQ(std::ranges::count(other, std::byte{0}), std::ssize(other));
}

TEST(Exchange, RefusesPeersAndBuffersThatDoNotFit) {
    run_on_threads(2, [](Communicator& world) {
        std::vector<float> two(2), three(3);
        EXPECT_THROW(world.exchange(view_of(std::span(two)), view_of(std::span(three)), 1 - world.rank()),
                     UsageError);
        EXPECT_THROW(world.exchange(view_of(std::span(two)), view_of(std::span(two)), world.rank()),
                     UsageError);
        EXPECT_THROW(world.exchange(view_of(std::span(two)), view_of(std::span(two)), 2), UsageError);
    });
}

}  // namespace
}  // namespace tutti::test
