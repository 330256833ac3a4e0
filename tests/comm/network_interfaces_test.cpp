#include <arpa/inet.h>

#include <gtest/gtest.h>

#include "network_interfaces.hpp"
#include "tutti/comm/network.hpp"

namespace tutti::test {
namespace {

TEST(reachable_address, of_a_name_that_stands_for_the_loopback_interface_is_another_if_there_is_one) {
    const std::string address = reachable_address("localhost");
    in_addr number{};
    if (address == "localhost") GTEST_SKIP() << "there is no other interface";
    ASSERT_EQ(inet_pton(AF_INET, address.c_str(), &number), 1) << address;
    EXPECT_NE(ntohl(number.s_addr) >> 24U, 127U) << address;
    EXPECT_EQ(reachable_address("127.0.1.1"), address);
}

TEST(reachable_address, of_any_other_name_is_the_name) {
    EXPECT_EQ(reachable_address("192.0.2.7"), "192.0.2.7");
}

TEST(own_addresses, are_not_those_of_loopback) {
    for (const std::string& address : own_addresses()) {
        in_addr number{};
        EXPECT_FALSE(inet_pton(AF_INET, address.c_str(), &number) == 1 && ntohl(number.s_addr) >> 24U == 127U)
            << address;
        EXPECT_NE(address, "::1");
        EXPECT_FALSE(address.starts_with("fe80:")) << address;
    }
    if (const std::string one = reachable_address("localhost"); one != "localhost") {
        ASSERT_FALSE(own_addresses().empty());
        EXPECT_EQ(own_addresses().front(), one);
    }
}

}  // namespace
}  // namespace tutti::test
