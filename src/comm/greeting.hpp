#pragma once
// Private to comm: what somebody who has connected says first.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "tcp_socket.hpp"

namespace tutti {

/// Somebody who has connected and not yet said who they are: with a Greeting, plain bytes, which may come in
/// parts.
template <class Greeting>
class Stranger {
    static_assert(std::is_trivially_copyable_v<Greeting>);

  public:
    explicit Stranger(TcpSocket connection) : socket(std::move(connection)) {}

    /// Reads on and does not wait. The greeting when it is complete, once. Closes the socket of one who has
    /// hung up before that, and of one who says something else than `beginning` first, at the first such
    /// byte. No secret may be in that: whoever hears which byte was wrong finds them out one by one.
    std::optional<Greeting> hear(std::span<const std::byte> beginning = {}) {
        const auto came = socket.receive_some(std::span(bytes_).subspan(received_));
        received_ += came.value_or(0);
        const std::size_t known = std::min(received_, beginning.size());
        if (!came || !std::equal(bytes_.begin(), bytes_.begin() + known, beginning.begin())) {
            socket.close();
            return {};
        }
        if (received_ < bytes_.size()) return {};
        return std::bit_cast<Greeting>(bytes_);
    }

    TcpSocket socket;

  private:
    std::array<std::byte, sizeof(Greeting)> bytes_{};
    std::size_t received_ = 0;
};

}  // namespace tutti
