// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/secret.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <thread>
#include "tests/catch.h"

#include "core/base/error.h"

using namespace trainer;

namespace {

struct Scratch {
  Scratch() { std::filesystem::create_directories(path); }
  ~Scratch() { std::filesystem::remove_all(path); }
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("trainer-secret-" + std::to_string(::getpid()));
};

}  // namespace

TEST_CASE("a proof is keyed BLAKE2b, with a key derived from the secret") {
  // From hashlib of Python, which has code of its own.
  const std::map<size_t, std::string> expected = {
      {0, "64d6aa28ab71c9968d7f3f6f46863a9b2cc1b75069423354bed3f7bcfe099b0e"},
      {3, "78a7ec057af9ad3af00d7df7ba06223ce78e821a669d663e58394f8103c8f072"},
      {200, "dbda1c983f53baae47a9636dbfc9956eb5076c4d0cb1f85215e773033ee8ede7"}};
  Secret secret;
  std::iota(secret.bytes.begin(), secret.bytes.end(), uint8_t{0});
  for (const auto& [size, digits] : expected) {
    std::string text(size, '\0');
    std::iota(text.begin(), text.end(), '\0');
    const std::string proven = proof(secret, text);
    std::string found;
    for (const char byte : proven) found += fmt::format("{:02x}", static_cast<uint8_t>(byte));
    CHECK(found == digits);
    CHECK(is_proof(proven, secret, text));
    CHECK_FALSE(is_proof(proven, secret, text + "x"));
    CHECK_FALSE(is_proof(proven, random_bytes(), text));
    CHECK_FALSE(is_proof(proven.substr(1), secret, text));
    CHECK_FALSE(is_proof(proven + proven, secret, text));
    CHECK_FALSE(is_proof("", secret, text));
    for (const size_t at : {0, 31}) {
      std::string other = proven;
      other[at] = static_cast<char>(other[at] ^ 1);
      CHECK_FALSE(is_proof(other, secret, text));
    }
  }
}

TEST_CASE("the memory of a secret is overwritten at its end") {
  alignas(Secret) std::array<unsigned char, sizeof(Secret)> memory{};
  auto* secret = new (memory.data()) Secret(random_bytes());
  CHECK(std::ranges::count(memory, 0) < 16);
  secret->~Secret();
  CHECK(std::ranges::count(memory, 0) == 16);
}

TEST_CASE("a secret is 32 hexadecimal digits") {
  const Secret secret = random_bytes();
  CHECK(secret != random_bytes());
  CHECK(from_hex(to_hex(secret)) == secret);
  CHECK(from_hex("ABCDEF00000000000000000000000000") == from_hex("abcdef00000000000000000000000000"));
  CHECK_FALSE(from_hex("abc"));
  CHECK_FALSE(from_hex("g0000000000000000000000000000000"));
  CHECK_FALSE(from_hex("0000000000000000000000000000000g"));
  CHECK_FALSE(from_hex("00000000:00000000:00000000:00000"));
  CHECK_FALSE(from_hex(to_hex(secret) + "00"));
  ::setenv("TRAINER_SECRET", "short", 1);
  CHECK_THROWS_WITH(secret_of_environment(), "TRAINER_SECRET must be 32 hexadecimal digits");
  ::setenv("TRAINER_SECRET", to_hex(secret).c_str(), 1);
  CHECK(secret_of_environment() == secret);
  ::unsetenv("TRAINER_SECRET");
  CHECK_FALSE(secret_of_environment());
}

TEST_CASE("the file of the secret is made once, and only its owner can read it") {
  const Scratch scratch;
  const std::filesystem::path file = scratch.path / "secret";
  Secret other{};
  std::thread waiting([&] { other = secret_of_file(file, false, std::chrono::seconds(20)); });
  const Secret first = secret_of_file(file, true, std::chrono::seconds(1));
  waiting.join();
  CHECK(first == other);
  CHECK(secret_of_file(file, true, std::chrono::seconds(1)) == first);
  CHECK(std::filesystem::status(file).permissions() ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  CHECK(std::distance(std::filesystem::directory_iterator(scratch.path), {}) == 1);

  ::chmod(file.c_str(), 0640);
  CHECK_THROWS_WITH(secret_of_file(file, true, std::chrono::seconds(1)),
                    Catch::Matchers::ContainsSubstring("others can read the secret"));
  ::chmod(file.c_str(), 0600);
  std::ofstream(file) << "something else";
  CHECK_THROWS_WITH(secret_of_file(file, true, std::chrono::seconds(1)),
                    Catch::Matchers::ContainsSubstring("is not the secret of ranks"));
  CHECK_THROWS_WITH(secret_of_file(scratch.path / "none", false, std::chrono::seconds(0)),
                    Catch::Matchers::ContainsSubstring("rank 0 has not made it within 0 s"));
}
