#pragma once
// What an all-reduce would take on another number of ranks, from what it took on some. Pure.

#include "tutti/comm/cost_model.hpp"

namespace tutti {

/// How the messages of an all-reduce go: from each rank to its neighbour around a ring, or up and down a
/// binary tree with the halves of the buffer in turn. Of p ranks with α seconds a message and B bytes a
/// second on every link:
///   ring  2(p − 1)·α + 2(p − 1)/p·S/B   (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms")
///   tree  2·log₂p·α + 2·S/B             (Sanders, Speck and Träff 2009, "Two-tree algorithms")
enum class AllReduceShape { ring, tree };

/// "ring" or "tree".
const char* to_string(AllReduceShape shape);

/// As many ranks on each of some hosts.
struct EvenHosts {
    int hosts = 1, each = 1;
};

/// Where `world` ranks are taken to be whose sums go host by host: on the fewest hosts with as many on each,
/// and at most most_each, two hosts at least; one rank on one. The network carries each host's sum once, so
/// the hosts are what cost_on() goes by. most_each 1: ranks on hosts of their own, or any others that an
/// all-reduce makes no difference between. Throws UsageError, with the next numbers below and above that come
/// out even, where this one does not, and for a world below 1.
EvenHosts even_hosts(int world, int most_each);

/// The model of `world` ranks, or hosts that add up first, if `measured` is that of `measured_world`, on
/// links of the same α and B: what a transfer of nothing takes, latency() and the processor's part of it grow
/// as the messages do, all that the bytes add, and the processor's part of that, as S/B does. So what every
/// transfer costs besides its messages counts as messages, and grows with them: on more ranks than measured
/// the result is rather too long. On one rank nothing is transferred. Throws UsageError for a world below 1,
/// or measured_world below 2.
CostModel cost_on(const CostModel& measured, int measured_world, int world, AllReduceShape shape);

}  // namespace tutti
