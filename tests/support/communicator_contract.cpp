#include "communicator_contract.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tutti/base/bf16.hpp"
#include "tutti/base/host_name.hpp"

namespace tutti::test {
namespace {

constexpr std::array<std::int64_t, 6> counts = {0, 1, 3, 1000, 1001, 65537};

/// Element i of rank r before a collective.
template <class T>
T value(int rank, std::int64_t i) {
    return static_cast<T>((rank + 1) * (i % 17) - rank);
}
template <class T>
T reduced(ReduceOp op, int ranks, std::int64_t i) {
    T result = value<T>(0, i);
    for (int rank = 1; rank < ranks; ++rank) {
        const T next = value<T>(rank, i);
        if (op == ReduceOp::sum) result += next;
        if (op == ReduceOp::max) result = std::max(result, next);
        if (op == ReduceOp::min) result = std::min(result, next);
    }
    return result;
}
template <class T>
std::vector<T> values(int rank, std::int64_t count) {
    std::vector<T> result(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) result[static_cast<std::size_t>(i)] = value<T>(rank, i);
    return result;
}
template <class T>
std::vector<T> reductions(ReduceOp op, int ranks, std::int64_t count) {
    std::vector<T> result(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) result[static_cast<std::size_t>(i)] = reduced<T>(op, ranks, i);
    return result;
}
template <class T>
TensorView view(std::vector<T>& elements) {
    return view_of(std::span(elements));
}
template <class T>
TensorView part(std::vector<T>& elements, int block, std::int64_t count) {
    return view_of(std::span(elements).subspan(static_cast<std::size_t>(block * count),
                                               static_cast<std::size_t>(count)));
}

template <class T>
void all_reduce_of(Communicator& communicator) {
    for (const auto op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min})
        for (const auto count : counts) {
            auto buffer = values<T>(communicator.rank(), count);
            communicator.all_reduce(view(buffer), op).wait();
            EXPECT_EQ(buffer, reductions<T>(op, communicator.size(), count)) << count << " elements";
        }
}
void all_reduces_every_type(Communicator& communicator) {
    all_reduce_of<float>(communicator);
    all_reduce_of<double>(communicator);
    all_reduce_of<std::int64_t>(communicator);
}

void all_reduce_gives_the_same_bits_on_every_rank(Communicator& communicator) {
    // Inexact sums: thirds and sevenths, whose sum depends on the order of addition.
    std::vector<float> buffer(4099);
    for (std::size_t i = 0; i < buffer.size(); ++i)
        buffer[i] = 1.0F / static_cast<float>(3 + 7 * communicator.rank()) + static_cast<float>(i) / 7.0F;
    communicator.all_reduce(view(buffer), ReduceOp::sum).wait();
    auto of_first = buffer;
    communicator.broadcast(view(of_first), 0).wait();
    EXPECT_EQ(buffer, of_first);
}

/// Element i of rank r in bf16: of either sign and of many magnitudes, some not finite.
std::vector<std::uint16_t> bf16_values(int rank, std::int64_t count) {
    std::vector<std::uint16_t> result;
    for (std::int64_t i = 0; i < count; ++i) {
        const float magnitude = std::ldexp(1.0F, static_cast<int>(i * 7 % 40) - 20);
        float value = magnitude / static_cast<float>(3 + 7 * rank) * (i % 3 == 0 ? -1.0F : 1.0F);
        if (i % 1000 == 501 && rank == 0) value = std::numeric_limits<float>::quiet_NaN();
        if (i % 1000 == 502) value = std::numeric_limits<float>::infinity();
        result.push_back(bf16_bits(value));
    }
    return result;
}
/// In fp32, in rank order, rounded once.
std::vector<std::uint16_t> bf16_sums(int ranks, std::int64_t count) {
    std::vector<float> sums(static_cast<std::size_t>(count));
    for (int rank = 0; rank < ranks; ++rank) {
        const auto values = bf16_values(rank, count);
        for (std::size_t i = 0; i < sums.size(); ++i)
            sums[i] = rank == 0 ? float_of_bf16(values[i]) : sums[i] + float_of_bf16(values[i]);
    }
    std::vector<std::uint16_t> result;
    for (const float sum : sums) result.push_back(bf16_bits(sum));
    return result;
}
TensorView bf16_view(std::vector<std::uint16_t>& bits, std::int64_t first, std::int64_t count) {
    return {reinterpret_cast<std::byte*>(bits.data() + first), DType::bf16, Shape{count}};
}

/// Where hosts' sums are rounded, too: what they are then is tests/comm/two_level_lane_test.cpp's.
bool rounds_by_host(const Communicator& communicator) {
    return communicator.bf16_path() == "shared memory and direct exchange";
}

void sums_bf16_in_fp32_and_rounds_once(Communicator& communicator) {
    if (rounds_by_host(communicator)) return;
    if (communicator.backend() == "nccl") {
        auto bits = bf16_values(communicator.rank(), 8);
        EXPECT_THROW(communicator.all_reduce(bf16_view(bits, 0, 8), ReduceOp::sum), UsageError);
        return;
    }
    for (const auto count : counts) {
        auto bits = bf16_values(communicator.rank(), count);
        communicator.all_reduce(bf16_view(bits, 0, count), ReduceOp::sum).wait();
        EXPECT_EQ(bits, bf16_sums(communicator.size(), count)) << count << " elements";
    }
}

void reduce_scatters_bf16_in_place(Communicator& communicator) {
    if (communicator.backend() == "nccl" || rounds_by_host(communicator)) return;  // as above
    for (const auto count : counts) {
        const std::int64_t total = count * communicator.size(), first = count * communicator.rank();
        auto bits = bf16_values(communicator.rank(), total);
        communicator.reduce_scatter(bf16_view(bits, 0, total), bf16_view(bits, first, count), ReduceOp::sum)
            .wait();
        const auto sums = bf16_sums(communicator.size(), total);
        EXPECT_TRUE(std::equal(sums.begin() + first, sums.begin() + first + count, bits.begin() + first))
            << count << " elements";
    }
}

void rejects_types_that_cannot_be_reduced(Communicator& communicator) {
    std::vector<unsigned char> bytes(8);
    EXPECT_THROW(communicator.all_reduce(view(bytes), ReduceOp::sum), UsageError);
    EXPECT_THROW(communicator.reduce_scatter(view(bytes), view(bytes), ReduceOp::sum), UsageError);
}

void rejects_blocks_and_roots_that_do_not_fit(Communicator& communicator) {
    std::vector<float> whole(static_cast<std::size_t>(communicator.size()) * 2 + 1);
    std::vector<float> block(2);
    EXPECT_THROW(communicator.reduce_scatter(view(whole), view(block), ReduceOp::sum), UsageError);
    EXPECT_THROW(communicator.all_gather(view(block), view(whole)), UsageError);
    std::vector<double> other(whole.size());
    const auto unused = [](std::int64_t, std::int64_t) { ADD_FAILURE() << "nothing was added up"; };
    EXPECT_THROW(communicator.reduce_then_gather(view(whole), view(block), unused), UsageError);
    EXPECT_THROW(communicator.reduce_then_gather(view(whole), view(other), unused), UsageError);
    EXPECT_THROW(communicator.broadcast(view(block), communicator.size()), UsageError);
    EXPECT_THROW(communicator.broadcast(view(block), -1), UsageError);
}

void reduce_scatters(Communicator& communicator) {
    const int rank = communicator.rank();
    for (const auto count : counts) {
        const auto total = count * communicator.size();
        auto expected = reductions<double>(ReduceOp::sum, communicator.size(), total);
        const std::vector<double> mine(expected.begin() + rank * count,
                                       expected.begin() + (rank + 1) * count);

        auto input = values<double>(rank, total);
        std::vector<double> output(static_cast<std::size_t>(count));
        communicator.reduce_scatter(view(input), view(output), ReduceOp::sum).wait();
        EXPECT_EQ(output, mine) << count << " elements";

        const auto own = part(input, rank, count);
        communicator.reduce_scatter(view(input), own, ReduceOp::sum).wait();
        const auto in_place = own.span<double>();
        EXPECT_EQ(std::vector<double>(in_place.begin(), in_place.end()), mine) << count << " in place";
    }
}

void gathers_what_was_made_of_sums(Communicator& communicator) {
    const int rank = communicator.rank();
    for (const auto count : counts) {
        const auto total = count * communicator.size();
        auto expected = reductions<double>(ReduceOp::sum, communicator.size(), total);
        for (double& element : expected) element = 3 * element + 1;
        auto input = values<double>(rank, total);
        std::vector<double> output(static_cast<std::size_t>(total), 1.0);
        std::int64_t used = 0;
        communicator
            .reduce_then_gather(view(input), view(output),
                                [&](std::int64_t first, std::int64_t pieces) {
                                    EXPECT_EQ(first, used);
                                    used += pieces;
                                    for (auto i = static_cast<std::size_t>(rank * count + first);
                                         i < static_cast<std::size_t>(rank * count + used); ++i)
                                        output[i] += 3 * input[i];
                                })
            .wait();
        EXPECT_EQ(used, count);
        EXPECT_EQ(output, expected) << count << " elements";
    }
}

void all_gathers(Communicator& communicator) {
    for (const auto count : counts) {
        std::vector<float> expected;
        for (int rank = 0; rank < communicator.size(); ++rank)
            for (const float element : values<float>(rank, count)) expected.push_back(element);

        auto input = values<float>(communicator.rank(), count);
        std::vector<float> output(expected.size(), -1.0F);
        communicator.all_gather(view(input), view(output)).wait();
        EXPECT_EQ(output, expected) << count << " elements";

        std::vector<float> in_place(expected.size(), -1.0F);
        const auto own = part(in_place, communicator.rank(), count);
        std::copy(input.begin(), input.end(), own.as<float>());
        communicator.all_gather(own, view(in_place)).wait();
        EXPECT_EQ(in_place, expected) << count << " in place";
    }
}

void broadcasts_any_type_from_any_root(Communicator& communicator) {
    for (int root = 0; root < communicator.size(); ++root)
        for (const auto count : counts) {
            auto numbers = values<std::int64_t>(communicator.rank(), count);
            communicator.broadcast(view(numbers), root).wait();
            EXPECT_EQ(numbers, values<std::int64_t>(root, count)) << count << " elements from " << root;

            auto bytes = values<unsigned char>(communicator.rank(), 2 * count);
            communicator.broadcast({view(bytes).data, DType::bf16, Shape{count}}, root).wait();
            EXPECT_EQ(bytes, values<unsigned char>(root, 2 * count)) << count << " bf16 from " << root;
        }
}

void keeps_several_works_apart(Communicator& communicator) {
    std::vector<std::vector<float>> buffers;
    std::vector<Work> works;
    for (std::int64_t k = 0; k < 6; ++k)
        buffers.push_back(values<float>(communicator.rank() + 1, 300 * k + 1));
    for (auto& buffer : buffers) works.push_back(communicator.all_reduce(view(buffer), ReduceOp::sum));
    // The ranks wait in different orders.
    for (std::size_t k = 0; k < works.size(); ++k)
        works[communicator.rank() % 2 == 0 ? k : works.size() - 1 - k].wait();
    for (const auto& buffer : buffers)
        for (std::size_t i = 0; i < buffer.size(); ++i) {
            float sum = 0;
            for (int rank = 1; rank <= communicator.size(); ++rank)
                sum += value<float>(rank, static_cast<std::int64_t>(i));
            ASSERT_EQ(buffer[i], sum) << "element " << i << " of " << buffer.size();
        }
}

void finishes_by_polling(Communicator& communicator) {
    auto buffer = values<double>(communicator.rank(), 1000);
    Work work = communicator.all_reduce(view(buffer), ReduceOp::sum);
    while (!work.test()) {
    }
    EXPECT_TRUE(work.test());
    EXPECT_EQ(buffer, reductions<double>(ReduceOp::sum, communicator.size(), 1000));
}

void a_dropped_work_waits(Communicator& communicator) {
    auto buffer = values<double>(communicator.rank(), 1000);
    static_cast<void>(communicator.all_reduce(view(buffer), ReduceOp::sum));
    EXPECT_EQ(buffer, reductions<double>(ReduceOp::sum, communicator.size(), 1000));
}

void a_duplicate_is_independent(Communicator& communicator) {
    const auto other = communicator.duplicate();
    EXPECT_EQ(other->rank(), communicator.rank());
    EXPECT_EQ(other->size(), communicator.size());
    EXPECT_EQ(other->backend(), communicator.backend());

    // Even ranks call the original first, odd ranks the duplicate; the sizes would not match on one
    // communicator.
    auto a = values<float>(communicator.rank(), 500);
    auto b = values<double>(communicator.rank(), 20);
    Work first, second;
    if (communicator.rank() % 2 == 0) {
        first = communicator.all_reduce(view(a), ReduceOp::sum);
        second = other->all_reduce(view(b), ReduceOp::max);
    } else {
        second = other->all_reduce(view(b), ReduceOp::max);
        first = communicator.all_reduce(view(a), ReduceOp::sum);
    }
    second.wait();
    first.wait();
    EXPECT_EQ(a, reductions<float>(ReduceOp::sum, communicator.size(), 500));
    EXPECT_EQ(b, reductions<double>(ReduceOp::max, communicator.size(), 20));
}

void barriers_and_ranks(Communicator& communicator) {
    EXPECT_GE(communicator.rank(), 0);
    EXPECT_LT(communicator.rank(), communicator.size());
    communicator.barrier();
    communicator.barrier();
}

void carries_texts(Communicator& communicator) {
    const std::string longest(100'000, 'x');
    for (const auto& text : {std::string(), std::string("one\0two", 7), longest})
        for (int root = 0; root < communicator.size(); ++root)
            EXPECT_EQ(broadcast_text(communicator, communicator.rank() == root ? text : "mine", root), text);

    // Rank 0 has nothing to say, the others speak ever longer.
    std::vector<std::string> expected;
    for (int rank = 0; rank < communicator.size(); ++rank)
        expected.emplace_back(static_cast<std::size_t>(rank) * 3, static_cast<char>('a' + rank));
    EXPECT_EQ(all_gather_text(communicator, expected[static_cast<std::size_t>(communicator.rank())]),
              expected);
}

/// Lets the ranks for which `fails` holds report a failure of their own code; returns what this rank threw.
std::pair<ExitCode, std::string> outcome(Communicator& communicator, bool fails, const std::string& message) {
    const auto code = communicator.rank() == 0 ? ExitCode::data : ExitCode::usage;
    try {
        agree(communicator, fails ? Failure{code, message} : Failure{}, "testing");
    } catch (const Error& error) {
        return {error.code(), error.what()};
    }
    return {ExitCode::done, ""};
}

void agrees_on_failures(Communicator& communicator) {
    const int rank = communicator.rank();
    const int last = communicator.size() - 1;
    const std::string mine = "no file " + std::to_string(rank);
    const std::string here = " on " + host_name() + ": ";
    using Result = std::pair<ExitCode, std::string>;

    EXPECT_EQ(outcome(communicator, false, mine), Result(ExitCode::done, ""));
    EXPECT_EQ(outcome(communicator, true, "no file"), Result(ExitCode::data, "no file"));
    if (last == 0) {
        EXPECT_EQ(outcome(communicator, true, mine), Result(ExitCode::data, "no file 0"));
        return;
    }
    EXPECT_EQ(outcome(communicator, rank == 0, mine), Result(ExitCode::data, "rank 0" + here + "no file 0"));
    EXPECT_EQ(
        outcome(communicator, rank == last, mine),
        Result(ExitCode::usage, "rank " + std::to_string(last) + here + "no file " + std::to_string(last)));
    const std::string others = last == 1 ? "1 other rank)" : std::to_string(last) + " other ranks)";
    EXPECT_EQ(outcome(communicator, true, mine),
              Result(ExitCode::data, "rank 0" + here + "no file 0 (and " + others));
}

constexpr std::array checks = {
    ContractCheck{"all_reduces_every_type", all_reduces_every_type},
    ContractCheck{"all_reduce_gives_the_same_bits_on_every_rank",
                  all_reduce_gives_the_same_bits_on_every_rank},
    ContractCheck{"sums_bf16_in_fp32_and_rounds_once", sums_bf16_in_fp32_and_rounds_once},
    ContractCheck{"reduce_scatters_bf16_in_place", reduce_scatters_bf16_in_place},
    ContractCheck{"rejects_types_that_cannot_be_reduced", rejects_types_that_cannot_be_reduced},
    ContractCheck{"rejects_blocks_and_roots_that_do_not_fit", rejects_blocks_and_roots_that_do_not_fit},
    ContractCheck{"reduce_scatters", reduce_scatters},
    ContractCheck{"gathers_what_was_made_of_sums", gathers_what_was_made_of_sums},
    ContractCheck{"all_gathers", all_gathers},
    ContractCheck{"broadcasts_any_type_from_any_root", broadcasts_any_type_from_any_root},
    ContractCheck{"keeps_several_works_apart", keeps_several_works_apart},
    ContractCheck{"finishes_by_polling", finishes_by_polling},
    ContractCheck{"a_dropped_work_waits", a_dropped_work_waits},
    ContractCheck{"a_duplicate_is_independent", a_duplicate_is_independent},
    ContractCheck{"barriers_and_ranks", barriers_and_ranks},
    ContractCheck{"carries_texts", carries_texts},
    ContractCheck{"agrees_on_failures", agrees_on_failures},
};

}  // namespace

std::span<const ContractCheck> communicator_contract() {
    return checks;
}

}  // namespace tutti::test
