#include "roll_call.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <thread>

#include "waiting.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds pause(1);

/// One message, which MPI can send without asking the receiver first.
constexpr std::size_t longest_text = 2048;
constexpr std::size_t most_silent = 256, longest_call = 96;

std::string pack(const RollCall::Verdict& verdict) {
    const auto count = static_cast<int>(std::min(verdict.silent.size(), most_silent));
    std::string text(sizeof count * static_cast<std::size_t>(1 + count), '\0');
    std::memcpy(text.data(), &count, sizeof count);
    if (count > 0)
        std::memcpy(text.data() + sizeof count, verdict.silent.data(),
                    sizeof count * static_cast<std::size_t>(count));
    return text + verdict.unlike;
}

RollCall::Verdict unpack(const std::string& text) {
    RollCall::Verdict verdict;
    int count = 0;
    if (text.size() < sizeof count) return verdict;
    std::memcpy(&count, text.data(), sizeof count);
    const std::size_t bytes = sizeof count * static_cast<std::size_t>(std::max(count, 0));
    if (text.size() - sizeof count < bytes) return verdict;
    verdict.silent.resize(bytes / sizeof count);
    if (bytes > 0) std::memcpy(verdict.silent.data(), text.data() + sizeof count, bytes);
    verdict.unlike = text.substr(sizeof count + bytes);
    return verdict;
}

}  // namespace

RollCall::RollCall(MPI_Comm comm, int rank, int size, Patience patience)
    : comm_(comm), rank_(rank), size_(size), patience_(patience), calls_(static_cast<std::size_t>(size)) {}

bool RollCall::has_come(Message message, int from, int& source) {
    int any = 0;
    MPI_Status status;
    if (MPI_Iprobe(from, first_tag + message, comm_, &any, &status) != MPI_SUCCESS || any == 0) return false;
    source = status.MPI_SOURCE;
    return true;
}

void RollCall::send(Message message, int to, const std::string& text) {
    texts_.push_back(text.substr(0, longest_text));
    sends_.push_back(MPI_REQUEST_NULL);
    MPI_Isend(texts_.back().data(), static_cast<int>(texts_.back().size()), MPI_BYTE, to, first_tag + message,
              comm_, &sends_.back());
}

/// Of a message that has come.
std::string RollCall::receive(Message message, int from) {
    std::string text(longest_text, '\0');
    MPI_Status status;
    int count = 0;
    if (MPI_Recv(text.data(), static_cast<int>(text.size()), MPI_BYTE, from, first_tag + message, comm_,
                 &status) == MPI_SUCCESS)
        MPI_Get_count(&status, MPI_BYTE, &count);
    text.resize(static_cast<std::size_t>(std::max(count, 0)));
    return text;
}

void RollCall::move_on() {
    int all = 0;
    MPI_Testall(static_cast<int>(sends_.size()), sends_.data(), &all, MPI_STATUSES_IGNORE);
}

/// Of any rank but rank 0.
std::optional<RollCall::Verdict> RollCall::answer(const std::string& call) {
    int from = 0;
    while (has_come(question, 0, from)) {
        receive(question, 0);
        send(here, 0, call.substr(0, longest_call));
    }
    move_on();
    if (!has_come(verdict, 0, from)) return {};
    return unpack(receive(verdict, 0));
}

/// Of rank 0.
RollCall::Verdict RollCall::ask_all(const std::string& call) {
    const auto end = Clock::now() + patience_.answers;
    calls_[0] = call.substr(0, longest_call);
    for (int rank = 1; rank < size_; ++rank) send(question, rank);
    const auto is_silent = [](const auto& its) { return !its; };
    while (std::ranges::any_of(calls_, is_silent) && Clock::now() < end) {
        for (const Message message : {overdue, here})
            for (int from = 0; has_come(message, MPI_ANY_SOURCE, from);)
                calls_[static_cast<std::size_t>(from)] = receive(message, from);
        move_on();
        std::this_thread::sleep_for(pause);
    }
    Verdict found;
    for (int rank = 1; rank < size_; ++rank)
        if (!calls_[static_cast<std::size_t>(rank)]) found.silent.push_back(rank);
    // Where one is silent some of the others may be a call further.
    if (found.silent.empty()) found.unlike = unlike_calls(calls_);
    for (int rank = 1; rank < size_; ++rank)
        if (calls_[static_cast<std::size_t>(rank)]) send(verdict, rank, pack(found));
    move_on();
    return found;
}

std::optional<RollCall::Verdict> RollCall::listen(const std::string& call) {
    if (rank_ != 0) return answer(call);
    int from = 0;
    if (!has_come(overdue, MPI_ANY_SOURCE, from)) return {};
    return ask_all(call);
}

RollCall::Verdict RollCall::ask(const std::string& call) {
    if (rank_ == 0) return ask_all(call);
    const auto end = Clock::now() + patience_.verdict;
    send(overdue, 0, call.substr(0, longest_call));
    do {
        if (const auto found = answer(call)) return *found;
        std::this_thread::sleep_for(pause);
    } while (Clock::now() < end);
    return {.silent = {0}, .guessed = true};
}

}  // namespace tutti
