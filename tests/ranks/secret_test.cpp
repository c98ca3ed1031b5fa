// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/secret.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
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

TEST_CASE("a proof is SipHash-2-4, by its authors' vectors") {
  Secret key{};
  std::iota(key.begin(), key.end(), uint8_t{0});
  std::string text;
  const uint64_t expected[] = {0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a,
                               0x85676696d7fb7e2d};
  for (const uint64_t value : expected) {
    CHECK(proof(key, text) == value);
    text += static_cast<char>(text.size());
  }
  while (text.size() < 15) text += static_cast<char>(text.size());
  CHECK(proof(key, text) == 0xa129ca6149be45e5);
}

TEST_CASE("a secret is 32 hexadecimal digits") {
  const Secret secret = random_bytes();
  CHECK(secret != random_bytes());
  CHECK(from_hex(to_hex(secret)) == secret);
  CHECK(from_hex("ABCDEF00000000000000000000000000") == from_hex("abcdef00000000000000000000000000"));
  CHECK_FALSE(from_hex("abc"));
  CHECK_FALSE(from_hex("g0000000000000000000000000000000"));
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
