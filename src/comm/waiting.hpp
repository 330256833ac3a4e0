#pragma once
// What backends say of a rank that waits for its peers, with the same words.

#include <optional>
#include <string>
#include <vector>

namespace tutti {

/// "all_reduce of 1024 f32: rank 3 on node7 waited 2.0 s for its peers".
std::string describe_wait(const std::string& call, int rank, const std::string& host, double seconds);
/// The same of `who`: "rank 3 on node7".
std::string describe_wait(const std::string& call, const std::string& who, double seconds);
/// "rank 1 on node2"; "rank 1" where its host is not known.
std::string name_of_rank(int rank, const std::vector<std::string>& hosts);
/// "rank 1 on node2", or "ranks 1 on node2, 3 on node4"; at most eight are named. hosts: by rank, or empty
/// where they are not known. Nothing of no ranks.
std::string list_of_ranks(const std::vector<int>& ranks, const std::vector<std::string>& hosts);
/// "nothing came from rank 1 on node2", or "… from ranks 1, 2", as list_of_ranks. Nothing of no ranks.
std::string describe_silence(const std::vector<int>& ranks, const std::vector<std::string>& hosts);
/// Where nobody is silent.
inline constexpr const char* all_wait = "all of them wait, too, so that what was sent is lost or on its way";
/// The calls, each with its ranks: "rank 0: all_reduce of 10 f32; ranks 1, 2: barrier". Nothing where all are
/// the same. calls: by rank, of those that are known.
std::string unlike_calls(const std::vector<std::optional<std::string>>& calls);
/// "the ranks wait in unlike calls (…)", of these.
std::string describe_unlike_calls(const std::string& unlike);
/// The remedy for that.
inline constexpr const char* same_calls = "start all ranks with the same program and the same configuration";
/// The diagnosis for Session::Notice.
std::string describe_wait_after_term(const std::string& call, int rank, const std::string& host);

/// The remedy where a peer is dead.
inline constexpr const char* ended_remedy =
    "look for its own error, or in the kernel's log (dmesg) if memory ran out; then start the same command "
    "again";
/// The remedy where a peer is dead or slow.
inline constexpr const char* slow_or_dead =
    "look for the first error of another rank, or raise distributed.timeout (of bench allreduce: --timeout) "
    "if "
    "a rank is only slow";

/// Prints "error: TEXT" and ends this process with exit code 5: for a thread that looks after one that waits
/// in a library and comes back to nobody.
[[noreturn]] void end_for_lost_peer(const std::string& text);

}  // namespace tutti
