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

/// What the ranks of one run know, and nobody else: 128 bits. Its memory is overwritten at its end.
struct Secret {
  ~Secret();
  /// Takes as long wherever the two differ.
  bool operator==(const Secret& other) const;

  std::array<uint8_t, 16> bytes{};
};

/// Sixteen bytes that nobody can guess. Throws Error (exit 69) if the system has none.
Secret random_bytes();

/// As 32 hexadecimal digits; nothing if a text is not that.
std::string to_hex(const Secret& secret);
std::optional<Secret> from_hex(std::string_view text);

/// TRAINER_SECRET, if it is set. Throws Error (exit 64) if it is not 32 hexadecimal digits.
std::optional<Secret> secret_of_environment();

/// The file that only its owner can read. Rank 0 makes it if it is missing, the others await it. Throws
/// Error: exit 74 if it cannot be read or made or does not come in time, 64 if others can read it or it
/// holds something else.
Secret secret_of_file(const std::filesystem::path& file, bool is_first, std::chrono::seconds patience);

/// 32 bytes that prove the knowledge of the secret to who has drawn a part of the text: keyed BLAKE2b (RFC
/// 7693), with a key that is derived from the secret.
std::string proof(const Secret& secret, std::string_view text);
bool is_proof(std::string_view proven, const Secret& secret, std::string_view text);

}  // namespace trainer
