#pragma once
// What a test does where the program refuses to compute in bf16: whether that is right, /proc/cpuinfo and the
// build tell, and not the code that is tested. Else a program that refuses everywhere would only be skipped.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <set>
#include <sstream>
#include <string>

namespace tutti::test {

enum class Bf16Need {
    products,      ///< oneDNN, and AVX-512: without its BF16 instructions the library widens to fp32
    instructions,  ///< AVX-512 with BF16, and a compiler that has it: our own kernels
    images         ///< as products, and no matrix unit, whose kernels take images in fp32
};

/// Of the first processor.
inline const std::set<std::string>& processor_flags() {
    static const std::set<std::string> flags = [] {
        std::set<std::string> result;
        std::ifstream cpuinfo("/proc/cpuinfo");
        for (std::string line; std::getline(cpuinfo, line);) {
            if (!line.starts_with("flags")) continue;
            std::istringstream words(line);
            for (std::string word; words >> word;) result.insert(word);
            break;
        }
        return result;
    }();
    return flags;
}

inline bool here_is(Bf16Need need) {
    const auto has = [](std::initializer_list<const char*> flags) {
        for (const char* flag : flags)
            if (!processor_flags().contains(flag)) return false;
        return true;
    };
    if (need == Bf16Need::instructions)
        return TUTTI_COMPILES_BF16 && has({"avx512f", "avx512bw", "avx512vl", "avx512_bf16"});
    const bool is_limited = std::getenv("ONEDNN_MAX_CPU_ISA") || std::getenv("DNNL_MAX_CPU_ISA");
    const bool has_products =
        TUTTI_WITH_ONEDNN && !is_limited && has({"avx512f", "avx512bw", "avx512dq", "avx512vl"});
    return has_products && !(need == Bf16Need::images && has({"amx_bf16"}));
}

/// Skips the test where the need is not met here, and fails it where it is. The caller returns.
inline void refused_bf16(Bf16Need need, const std::string& reason) {
    if (here_is(need)) FAIL() << "the processor and the build have what it takes, but: " << reason;
    GTEST_SKIP() << reason;
}

}  // namespace tutti::test
