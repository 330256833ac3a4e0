#include "roll_call.hpp"

#include <algorithm>
#include <thread>

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds pause(1);

/// One message, which MPI can send without asking the receiver first.
constexpr std::size_t most_named = 256;

}  // namespace

RollCall::RollCall(MPI_Comm comm, int rank, int size, Patience patience)
    : comm_(comm), rank_(rank), size_(size), patience_(patience), present_(static_cast<std::size_t>(size)) {}

bool RollCall::has_come(Message message, int from, int& source) {
    int any = 0;
    MPI_Status status;
    if (MPI_Iprobe(from, first_tag + message, comm_, &any, &status) != MPI_SUCCESS || any == 0) return false;
    source = status.MPI_SOURCE;
    return true;
}

void RollCall::send(Message message, int to, const std::vector<int>& ranks) {
    texts_.push_back(ranks);
    sends_.push_back(MPI_REQUEST_NULL);
    MPI_Isend(texts_.back().data(), static_cast<int>(ranks.size()), MPI_INT, to, first_tag + message, comm_,
              &sends_.back());
}

/// Of a message that has come.
void RollCall::receive(Message message, int from) {
    MPI_Recv(nullptr, 0, MPI_INT, from, first_tag + message, comm_, MPI_STATUS_IGNORE);
}

void RollCall::move_on() {
    int all = 0;
    MPI_Testall(static_cast<int>(sends_.size()), sends_.data(), &all, MPI_STATUSES_IGNORE);
}

/// Of any rank but rank 0.
std::optional<std::vector<int>> RollCall::answer() {
    int from = 0;
    while (has_come(question, 0, from)) {
        receive(question, 0);
        send(here, 0);
    }
    move_on();
    if (!has_come(verdict, 0, from)) return {};
    std::vector<int> ranks(most_named);
    MPI_Status status;
    int count = 0;
    if (MPI_Recv(ranks.data(), static_cast<int>(most_named), MPI_INT, 0, first_tag + verdict, comm_,
                 &status) == MPI_SUCCESS)
        MPI_Get_count(&status, MPI_INT, &count);
    ranks.resize(static_cast<std::size_t>(std::max(count, 0)));
    return ranks;
}

/// Of rank 0.
std::vector<int> RollCall::ask_all() {
    const auto end = Clock::now() + patience_.answers;
    present_[0] = 1;
    for (int rank = 1; rank < size_; ++rank) send(question, rank);
    while (std::count(present_.begin(), present_.end(), 0) > 0 && Clock::now() < end) {
        for (const Message message : {overdue, here})
            for (int from = 0; has_come(message, MPI_ANY_SOURCE, from);) {
                receive(message, from);
                present_[static_cast<std::size_t>(from)] = 1;
            }
        move_on();
        std::this_thread::sleep_for(pause);
    }
    std::vector<int> missing;
    for (int rank = 1; rank < size_ && missing.size() < most_named; ++rank)
        if (present_[static_cast<std::size_t>(rank)] == 0) missing.push_back(rank);
    for (int rank = 1; rank < size_; ++rank)
        if (present_[static_cast<std::size_t>(rank)] != 0) send(verdict, rank, missing);
    move_on();
    return missing;
}

std::optional<std::vector<int>> RollCall::listen() {
    if (rank_ != 0) return answer();
    int from = 0;
    if (!has_come(overdue, MPI_ANY_SOURCE, from)) return {};
    return ask_all();
}

std::vector<int> RollCall::silent() {
    if (rank_ == 0) return ask_all();
    const auto end = Clock::now() + patience_.verdict;
    send(overdue, 0);
    do {
        if (const auto ranks = answer()) return *ranks;
        std::this_thread::sleep_for(pause);
    } while (Clock::now() < end);
    return {0};
}

}  // namespace tutti
