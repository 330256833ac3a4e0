#pragma once
// SHA-256 of byte streams (FIPS 180-4, computed by libcrypto).

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tutti {

/// Incremental hash. Not thread-safe; one use.
class Sha256 {
  public:
    Sha256();
    ~Sha256();
    Sha256(Sha256&&) noexcept;
    Sha256& operator=(Sha256&&) noexcept;

    void update(std::span<const std::byte> bytes);
    void update(std::string_view text);
    /// 64 lower-case hexadecimal digits. Call once.
    std::string hex();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace tutti
