#pragma once
// What a model is to say of each sample of a file: its class, or numbers.

#include <cstdint>
#include <vector>

#include "hdf5_attributes.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti {

/// Sets what the attributes say, `labelled`, and, by /targets, `targets`. DataError: neither labels nor
/// targets where they are wanted, both, no classes of labels, /targets that are not of the schema.
void describe_labels_and_targets(DatasetInfo& info, const hdf5::File& file, Labels wanted);

/// /labels: [samples]. DataError: of another type or number, not written as a whole, unreadable.
std::vector<std::int64_t> read_labels(const hdf5::File& file, std::int64_t samples);

/// /targets: f32 [info.samples, info.targets], row-major. DataError: another number of rows, not written as
/// a whole, unreadable, a value that is not finite in 32 bits (with its sample).
std::vector<float> read_targets(const hdf5::File& file, const DatasetInfo& info);

}  // namespace tutti
