// SPDX-License-Identifier: Apache-2.0
#include "core/base/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "core/base/file.h"

namespace trainer {

std::optional<std::string> read_small_file(const std::filesystem::path& path) {
  constexpr size_t kMost = size_t{1} << 22, kPiece = 4096;
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return std::nullopt;
  std::string text;
  while (text.size() <= kMost) {
    const size_t had = text.size();
    text.resize(had + kPiece);
    const ssize_t got = ::read(file.get(), &text[had], kPiece);
    if (got < 0 && errno == EINTR) {
      text.resize(had);
      continue;
    }
    text.resize(had + static_cast<size_t>(got > 0 ? got : 0));
    if (got < 0) return std::nullopt;
    if (got == 0) return text;
  }
  errno = EFBIG;
  return std::nullopt;
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view rest = text.substr(static_cast<size_t>(end - text.data()));
  if (rest.find_first_not_of(" \t\n") != std::string_view::npos) return std::nullopt;
  return number;
}

std::optional<int64_t> read_number(const std::filesystem::path& path) {
  const std::optional<std::string> text = read_small_file(path);
  return text ? whole_number(*text) : std::nullopt;
}

}  // namespace trainer
