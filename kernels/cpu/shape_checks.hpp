#pragma once
// Refusal of shapes that make no sense, when an operator is planned.

#include <string>

#include "tutti/device/ops.hpp"

namespace tutti {

/// "linear 784 -> 512".
std::string describe(const LinearShape& shape);
/// "conv2d 1 -> 32, kernel 3x3, stride 1x1, padding 1x1, groups 1 on 28x28".
std::string describe(const Conv2dShape& shape);

/// Throw UsageError that names the dimension.
void check(const LinearShape& shape);
void check(const Conv2dShape& shape);
void check(const AveragePool2dShape& shape);

/// The convolution, from y's shape to x's, whose backward is the transposed convolution. Throws UsageError.
Conv2dShape convolution_of(const ConvTranspose2dShape& shape);

}  // namespace tutti
