#include "tutti/base/sha256.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

void check(int status, const char* call) {
    if (status != 1)
        throw RunError(fmt::format("{} failed", call), "check that the installed OpenSSL provides SHA-256");
}

}  // namespace

struct Sha256::State {
    std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
    check(state_->context ? 1 : 0, "EVP_MD_CTX_new");
    check(EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr), "EVP_DigestInit_ex");
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
    check(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()), "EVP_DigestUpdate");
}

void Sha256::update(std::string_view text) {
    update(std::as_bytes(std::span(text.data(), text.size())));
}

std::string Sha256::hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned length = 0;
    check(EVP_DigestFinal_ex(state_->context.get(), digest.data(), &length), "EVP_DigestFinal_ex");
    std::string text;
    for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
    return text;
}

}  // namespace tutti
