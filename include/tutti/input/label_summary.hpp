#pragma once
// What one pass over the labels of a data set tells.

#include <string>

#include "tutti/input/dataset.hpp"

namespace tutti {

struct LabelSummary {
    std::string fingerprint;         ///< labels_fingerprint()
    bool first_class_empty = false;  ///< there are labels, and none of them is 0
};

/// Of the labels of all samples, which are not read themselves. Throws DataError as read_labels() does.
LabelSummary summarize_labels(const Dataset& data);

/// Where classes are numbers and no sample has the label 0, as where somebody counted from 1: what that
/// means; else nothing. Pure.
std::string doubt_about_labels(const DatasetInfo& info, bool first_class_empty);

/// What to do about that in a file that is there: behind doubt_about_labels(). Pure.
std::string remedy_for_labels(const DatasetInfo& info);

}  // namespace tutti
