#pragma once
// From the config's precision to the type of the arithmetic.

#include <string>

#include "tutti/base/arithmetic.hpp"
#include "tutti/base/config.hpp"

namespace tutti {

/// bf16 is mixed: products in bf16, everything else in fp32; tf32 rounds products only, too.
inline Arithmetic arithmetic_of(Precision precision) {
    if (precision == Precision::bf16) return {DType::f32, DType::bf16};
    if (precision == Precision::tf32) return Arithmetic::tf32();
    return precision == Precision::fp64 ? DType::f64 : DType::f32;
}

inline DType compute_type(Precision precision) {
    return arithmetic_of(precision).compute;
}

/// As train.precision names it.
inline const char* name_of(Precision precision) {
    if (precision == Precision::tf32) return "tf32";
    if (precision == Precision::bf16) return "bf16";
    return precision == Precision::fp64 ? "fp64" : "fp32";
}

/// For reports: what to add after the model where its products are in a type of their own, or nothing.
inline std::string products_note(Precision precision) {
    if (precision == Precision::tf32) return ", products in tf32";
    return precision == Precision::bf16 ? ", products in bf16" : "";
}

/// data.workers, where `auto` means one.
inline int loader_workers(const DataConfig& config) {
    return static_cast<int>(config.workers.value_or(1));
}

}  // namespace tutti
