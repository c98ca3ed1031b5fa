// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace trainer {

/// Corrects the checksum of the header at an offset.
inline void seal_header(std::string& archive, size_t at = 0) {
  archive.replace(at + 148, 8, "        ");
  uint32_t sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += static_cast<uint8_t>(archive[at + i]);
  archive.replace(at + 148, 7, fmt::format("{:06o}", sum) + std::string(1, '\0'));
}

/// A member of a tar archive: its header and its contents, filled up to whole blocks.
inline std::string tar_member(const std::string& name, const std::string& contents, char type = '0') {
  std::string member(512, '\0');
  const auto put = [&member](size_t at, const std::string& text) { member.replace(at, text.size(), text); };
  put(0, name);
  put(100, "0000644");
  put(124, fmt::format("{:011o}", contents.size()));
  put(136, "00000000000");
  put(156, std::string(1, type));
  put(257, std::string("ustar\0"
                       "00",
                       8));
  seal_header(member);
  member += contents;
  member.resize((member.size() + 511) / 512 * 512);
  return member;
}

inline std::string tar_end() {
  return std::string(1024, '\0');
}

}  // namespace trainer
