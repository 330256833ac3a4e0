#include "tutti/base/sha256.hpp"

#include <gtest/gtest.h>

#include <array>
#include <utility>

namespace tutti {
namespace {

// Examples of FIPS 180-4 (NIST, "SHA256 Example Values").
constexpr const char* hash_of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256, hashes_the_empty_stream) {
    EXPECT_EQ(Sha256().hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, hashes_text) {
    Sha256 hash;
    hash.update(std::string_view("abc"));
    EXPECT_EQ(hash.hex(), hash_of_abc);
}

TEST(Sha256, does_not_depend_on_how_the_stream_is_cut) {
    Sha256 hash;
    hash.update(std::string_view("a"));
    hash.update(std::string_view());
    hash.update(std::string_view("bc"));
    EXPECT_EQ(hash.hex(), hash_of_abc);
}

TEST(Sha256, hashes_streams_longer_than_one_block) {
    Sha256 hash;
    hash.update(std::string_view("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"));
    EXPECT_EQ(hash.hex(), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, hashes_bytes_as_it_hashes_text) {
    const std::array bytes{std::byte{'a'}, std::byte{'b'}, std::byte{'c'}};
    Sha256 hash;
    hash.update(std::span<const std::byte>(bytes));
    EXPECT_EQ(hash.hex(), hash_of_abc);
}

TEST(Sha256, goes_on_after_it_was_moved) {
    Sha256 first;
    first.update(std::string_view("ab"));
    Sha256 second = std::move(first);
    second.update(std::string_view("c"));
    EXPECT_EQ(second.hex(), hash_of_abc);
}

}  // namespace
}  // namespace tutti
