#include <gtest/gtest.h>

#include <system_error>

#include "communicator_contract.hpp"
#include "support/error_message.hpp"

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

TEST(single_communicator, a_thread_that_cannot_be_started_is_a_limit) {
    const auto communicator = make_single_communicator();
    const auto said = [&](std::errc code) {
        return message_of<AgreedError>([&] {
            together(*communicator, "building the model",
                     [&] { throw std::system_error(std::make_error_code(code)); });
        });
    };
    EXPECT_NE(said(std::errc::resource_unavailable_try_again)
                  .find("Resource temporarily unavailable; raise the limits on processes and memory (ulimit"),
              std::string::npos);
    EXPECT_EQ(said(std::errc::io_error).find("ulimit"), std::string::npos);
}

}  // namespace
}  // namespace tutti::test
