// What does it cost to write memory that another core has read? Two threads on two cores write a half each,
// in whole cache lines, and then read their own half, or the other's: where the cores have no cache in
// common, what the other has read is slow to write again.
//
//   bench_shared_lines [MIB] : µs a MiB to write and to read, medians of 200 turns, on the first two cores
//   that this process may run on, of MIB MiB in all (4). "streamed": by stores that bypass the caches.
#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "tutti/comm/launch.hpp"
#include "two_cores.hpp"

namespace tutti {
namespace {

constexpr int turns = 200, not_counted = 3;
constexpr std::size_t line = 16;  // floats

struct Kind {
    const char* name;
    bool reads_other, streamed;
};
struct Times {
    std::vector<double> write, read;
};

double median_of(std::vector<double>& values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

void write(float* to, std::size_t count, float value, bool streamed) {
#if defined(__AVX512F__)
    if (streamed) {
        const __m512 values = _mm512_set1_ps(value);
        for (std::size_t i = 0; i < count; i += line) _mm512_stream_ps(to + i, values);
        _mm_sfence();
        return;
    }
#endif
    static_cast<void>(streamed);
    std::fill_n(to, count, value);
    asm volatile("" ::: "memory");
}

void read(const float* from, std::size_t count) {
    float sum = 0;
    for (std::size_t i = 0; i < count; i += line) sum += from[i];
    asm volatile("" ::"x"(sum));
}

/// µs of each turn of the first thread; the other does the same at once.
Times measure(const std::vector<int>& cores, float* memory, std::size_t half, const Kind& kind) {
    Times times;
    std::barrier together(2);
    const auto body = [&](std::size_t me) {
        using Clock = std::chrono::steady_clock;
        const auto since = [](Clock::time_point begin) {
            return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
        };
        float* const own = memory + me * half;
        const float* const source = kind.reads_other ? memory + (1 - me) * half : own;
        for (int turn = 0; turn < turns + not_counted; ++turn) {
            together.arrive_and_wait();
            const auto write_begin = Clock::now();
            write(own, half, static_cast<float>(turn), kind.streamed);
            const double written = since(write_begin);
            together.arrive_and_wait();
            const auto read_begin = Clock::now();
            read(source, half);
            if (me != 0 || turn < not_counted) continue;
            times.read.push_back(since(read_begin));
            times.write.push_back(written);
        }
    };
    std::jthread other([&] {
        pin_to(cores[1]);
        body(1);
    });
    pin_to(cores[0]);
    body(0);
    return times;
}

int run(const std::vector<std::string_view>& words) {
    std::size_t mib = 4;
    if (words.size() == 1) {
        const char* const end = words[0].data() + words[0].size();
        const auto [rest, error] = std::from_chars(words[0].data(), end, mib);
        if (error != std::errc() || rest != end) mib = 0;
    }
    if (words.size() > 1 || mib < 1 || mib > 4096)
        throw std::runtime_error("MIB is a whole number of MiB from 1 to 4096");
    const std::vector<int> cores = bound_cores();
    if (cores.size() < 2) throw std::runtime_error("two cores are needed; see `taskset -cp $$`");
    const std::size_t count = mib << 18, half = count / 2;
    constexpr std::size_t page = std::size_t{2} << 20;
    const std::unique_ptr<float, decltype(&std::free)> memory(
        static_cast<float*>(std::aligned_alloc(page, (count * sizeof(float) + page - 1) / page * page)),
        std::free);
    if (!memory) throw std::bad_alloc();
    const double mib_of_half = static_cast<double>(mib) / 2;
    for (const Kind& kind : {
             Kind{"own half read", false, false}, Kind{"other half read", true, false},
#if defined(__AVX512F__)
                 Kind{"own half read, streamed", false, true}, Kind {
                 "other half read, streamed", true, true
             }
#endif
         }) {
        Times times = measure(cores, memory.get(), half, kind);
        fmt::print("{:<28} write {:6.1f}  read {:6.1f} us a MiB\n", kind.name,
                   median_of(times.write) / mib_of_half, median_of(times.read) / mib_of_half);
    }
    return 0;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
    return tutti::run_program("bench_shared_lines", tutti::run, argc, argv);
}
