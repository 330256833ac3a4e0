#include "namesakes.hpp"

#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace tutti {
namespace {

// Seconds. Most launches are complete before the first knock.
constexpr double between_knocks = 1;
constexpr double longest_connect = 0.2;

std::uint64_t number_of_this_process() {
    std::random_device source;
    std::uint64_t number = 0;
    while (number == 0) number = std::uint64_t{source()} << 32U | source();
    return number;
}

}  // namespace

Namesakes::Namesakes(const MeetingPoint& point, int size, int port, WaitClock& clock)
    : point_(point),
      hello_(hello_of(point, 0, size)),
      port_(port),
      clock_(clock),
      next_(clock, between_knocks) {
    hello_.teller = number_of_this_process();
}

TcpSocket Namesakes::ask() {
    for (Stranger<Welcome>& one : asked_) {
        const auto answer = one.hear();
        if (!answer) continue;
        if (answers(*answer, hello_) && answer->taken == misfit_for_good) return std::move(one.socket);
        one.socket.close();
    }
    std::erase_if(asked_, [](const auto& one) { return !one.socket; });
    if (next_.passed()) knock();
    return {};
}

void Namesakes::knock() {
    asked_.clear();  // who has not answered since the last time is no rank 0
    for (int port = point_.port; port <= port_; ++port) {
        TcpSocket socket = connect_tcp(point_.address, port, Deadline(clock_, longest_connect));
        // No rank 0 has passed over a port where nobody listens.
        if (!socket) break;
        if (socket.send_at_once(std::as_bytes(std::span(&hello_, 1)))) asked_.emplace_back(std::move(socket));
    }
    next_ = Deadline(clock_, between_knocks);
}

}  // namespace tutti
