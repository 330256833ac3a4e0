#pragma once
// From the config's precision to the type of the arithmetic.

#include "tutti/base/config.hpp"
#include "tutti/base/dtype.hpp"

namespace tutti {

inline DType compute_type(Precision precision) {
    return precision == Precision::fp64 ? DType::f64 : DType::f32;
}

/// data.workers, where `auto` means one.
inline int loader_workers(const DataConfig& config) {
    return static_cast<int>(config.workers.value_or(1));
}

}  // namespace tutti
