#include "host_star.hpp"

#include <gtest/gtest.h>

#include "mpi_communicator.hpp"
#include "mpi_environment.hpp"
#include "network_interfaces.hpp"

namespace tutti::test {
namespace {

/// As if so many ranks after one another were on each host.
std::shared_ptr<PeerWatch> star_of_hosts_of(int each) {
    const int rank = session().rank();
    std::vector<std::string> hosts;
    for (int other = 0; other < session().size(); ++other)
        hosts.push_back("node" + std::to_string(other / each + 1));
    return watch_hosts(make_handle(MPI_COMM_WORLD, ample_time), hosts, rank / each * each,
                       session().size() <= each);
}

TEST(host_star, joins_the_lowest_rank_of_each_host) {
    if (own_addresses().empty()) GTEST_SKIP() << "no address but loopback's";
    for (const int each : {1, 2, 4}) {
        const auto star = star_of_hosts_of(each);
        const bool wanted = session().size() > each && session().rank() % each == 0;
        EXPECT_EQ(star != nullptr, wanted) << each;
        if (star) {
            EXPECT_EQ(star->departed(true), "");
        }
        session().world(ample_time)->barrier();  // nobody leaves before the others have looked
    }
}

TEST(host_star, lets_ranks_go_that_end_in_good_order) {
    auto star = star_of_hosts_of(1);
    if (session().rank() == session().size() - 1) star.reset();
    session().world(ample_time)->barrier();
    if (star) {
        EXPECT_EQ(star->departed(true), "");
    }
    session().world(ample_time)->barrier();
}

}  // namespace
}  // namespace tutti::test
