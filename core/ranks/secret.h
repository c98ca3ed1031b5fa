// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace trainer {

/// The 128 bits that only the ranks of one run know. The destructor overwrites them.
struct Secret {
  ~Secret();
  /// In constant time.
  bool operator==(const Secret& other) const;

  std::array<uint8_t, 16> bytes{};
};

/// Sixteen random bytes for cryptography. Throws Error (exit 69) if the system has none.
Secret random_bytes();

/// As 32 hexadecimal digits; nothing for another text.
std::string to_hex(const Secret& secret);
std::optional<Secret> from_hex(std::string_view text);

/// TRAINER_SECRET, if it is set. Throws Error (exit 64) if it is not 32 hexadecimal digits.
std::optional<Secret> secret_of_environment();

/// The secret in a file that only its owner can read. Rank 0 creates a missing one; the others wait for it.
/// Throws Error: exit 74 if it cannot be read or created, or does not appear in time; 64 if others can read
/// it, or if it holds something else.
Secret secret_of_file(const std::filesystem::path& file, bool is_first, std::chrono::seconds timeout);

/// 32 bytes that prove knowledge of the secret to a peer that has drawn part of the text at random: keyed
/// BLAKE2b (RFC 7693), with a key derived from the secret.
std::string proof(const Secret& secret, std::string_view text);
bool is_proof(std::string_view proven, const Secret& secret, std::string_view text);

}  // namespace trainer
