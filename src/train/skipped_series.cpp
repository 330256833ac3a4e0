#include "skipped_series.hpp"

#include <fmt/format.h>

#include <utility>

namespace tutti {

void SkippedSeries::add(Update update) {
    if (count_ == 0) first_ = update;
    last_ = std::move(update);
    ++count_;
}

std::string SkippedSeries::describe() const {
    return fmt::format(
        "{} updates one after the other were skipped (train.nan_policy: skip), from {}, to {}, where {}",
        count_, place_of(first_), place_of(last_), last_.reason);
}

std::string place_of(const SkippedSeries::Update& update) {
    return fmt::format("epoch {}, samples {} to {}", update.epoch + 1, update.begin, update.end - 1);
}

}  // namespace tutti
