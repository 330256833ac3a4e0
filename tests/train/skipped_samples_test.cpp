#include "tutti/train/skipped_samples.hpp"

#include <gtest/gtest.h>

#include "support/error_message.hpp"

namespace tutti {
namespace {

TEST(SkippedSamplesShare, may_be_half_and_not_more) {
    EXPECT_NO_THROW(SkippedSamples::check_share(0, 0, "train.h5"));
    EXPECT_NO_THROW(SkippedSamples::check_share(5, 10, "train.h5"));
    EXPECT_NO_THROW(SkippedSamples::check_share(5, 11, "train.h5"));
    EXPECT_CONTAINS(
        test::message_of<AgreedError>([] { SkippedSamples::check_share(6, 11, "train.h5"); }),
        "train.h5: 6 of 11 samples could not be read, more than half; data.on_error: skip is for single");
    EXPECT_THROW(SkippedSamples::check_share(6, 10, "train.h5"), AgreedError);
}

}  // namespace
}  // namespace tutti
