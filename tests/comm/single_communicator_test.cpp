#include <gtest/gtest.h>

#include "communicator_contract.hpp"

namespace tutti::test {
namespace {

class SingleContract : public testing::TestWithParam<ContractCheck> {};

TEST_P(SingleContract, holds) {
    const auto communicator = make_single_communicator();
    GetParam().run(*communicator);
}
INSTANTIATE_TEST_SUITE_P(single, SingleContract, testing::ValuesIn(communicator_contract()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(single_communicator, abort_ends_the_process_with_the_code) {
    EXPECT_EXIT(make_single_communicator()->abort(ExitCode::data), testing::ExitedWithCode(4), "");
}

}  // namespace
}  // namespace tutti::test
