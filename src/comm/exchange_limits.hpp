#pragma once
// Private to comm: how many ranks, not as many on each of several hosts, exchange directly.

namespace tutti {

/// Of ranks on hosts of their own. With more, every rank would have too many messages of too few bytes. At 12
/// and 16 hosts, on links of 1 Gbit/s, 4 MiB took 0.19 and 0.22 of the time of MPI_Iallreduce, whose ring
/// waits for a poll at each step. More were not measured.
constexpr int most_exchanging_ranks = 32;

/// Where hosts have different numbers of ranks. Direct messages between all of them cost the network more
/// than a ring does (3.75 to 1.75 parts of a buffer with 5 ranks beside 3), and yet took 0.75 of
/// MPI_Iallreduce's time there, on links of 1 Gbit/s; with 3 beside 2, 0.6.
constexpr int most_mixed_ranks = 8;

}  // namespace tutti
