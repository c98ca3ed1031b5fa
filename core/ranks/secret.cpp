// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "core/base/error.h"
#include "core/base/printable.h"

namespace trainer {
namespace {

constexpr const char* kVariable = "TRAINER_SECRET";
constexpr size_t kDigits = 32;
constexpr std::chrono::milliseconds kBetweenLooks(50);

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return value;
}

/// The four words of SipHash and its rounds.
struct SipHash {
  uint64_t a, b, c, d;

  void mix(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      a += b;
      b = std::rotl(b, 13) ^ a;
      a = std::rotl(a, 32);
      c += d;
      d = std::rotl(d, 16) ^ c;
      a += d;
      d = std::rotl(d, 21) ^ a;
      c += b;
      b = std::rotl(b, 17) ^ c;
      c = std::rotl(c, 32);
    }
  }
  void put(uint64_t word) {
    d ^= word;
    mix(2);
    a ^= word;
  }
};

[[noreturn]] void fail(ExitCode code, const std::filesystem::path& file, const std::string& text) {
  throw Error(code, fmt::format("{}: {}", one_line(file.string()), text));
}

/// Appears with all that it holds, or not at all. Whether another process was first does not matter.
void make(const std::filesystem::path& file) {
  const std::string text = to_hex(random_bytes()) + "\n", temporary = file.string() + ".XXXXXX";
  std::string name = temporary;
  const int descriptor = ::mkstemp(name.data());  // of mode 0600
  if (descriptor < 0) fail(ExitCode::io, file, std::strerror(errno));
  const bool is_written = ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int problem = errno;
  ::close(descriptor);
  const bool is_there = is_written && (::link(name.c_str(), file.c_str()) == 0 || errno == EEXIST);
  const int other_problem = errno;
  ::unlink(name.c_str());
  if (!is_there)
    fail(ExitCode::io, file,
         fmt::format("{}; or set {} for all ranks", std::strerror(is_written ? other_problem : problem),
                     kVariable));
}

/// Nothing where there is no file.
std::optional<Secret> read(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0 && errno == ENOENT) return std::nullopt;
  if (descriptor < 0) fail(ExitCode::io, file, std::strerror(errno));
  struct stat about {};
  std::array<char, kDigits + 2> text{};
  const bool is_known = ::fstat(descriptor, &about) == 0;
  const ssize_t bytes = ::read(descriptor, text.data(), text.size());
  ::close(descriptor);
  if (!is_known || bytes < 0) fail(ExitCode::io, file, std::strerror(errno));
  if ((about.st_mode & 077) != 0)
    fail(ExitCode::usage, file,
         "others can read the secret of the ranks; remove it, and a new one is made, or set TRAINER_SECRET "
         "for all ranks");
  const auto secret =
      from_hex(std::string_view(text.data(), std::min<size_t>(kDigits, static_cast<size_t>(bytes))));
  if (!secret) fail(ExitCode::usage, file, "is not the secret of ranks; remove it, and a new one is made");
  return secret;
}

}  // namespace

Secret random_bytes() {
  Secret secret{};
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size()))
    throw Error(ExitCode::no_device,
                fmt::format("the system gives no random bytes: {}", std::strerror(errno)));
  return secret;
}

std::string to_hex(const Secret& secret) {
  std::string text;
  for (const uint8_t byte : secret) text += fmt::format("{:02x}", byte);
  return text;
}

std::optional<Secret> from_hex(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  if (text.size() != kDigits) return std::nullopt;
  Secret secret{};
  for (size_t i = 0; i < kDigits; ++i) {
    const size_t digit =
        kHex.find(static_cast<char>(text[i] >= 'A' && text[i] <= 'F' ? text[i] + 32 : text[i]));
    if (digit == std::string_view::npos) return std::nullopt;
    secret[i / 2] = static_cast<uint8_t>(secret[i / 2] << 4 | digit);
  }
  return secret;
}

std::optional<Secret> secret_of_environment() {
  const char* text = std::getenv(kVariable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  const std::optional<Secret> secret = from_hex(text);
  if (!secret)
    throw Error(ExitCode::usage, fmt::format("{} must be {} hexadecimal digits", kVariable, kDigits));
  return secret;
}

Secret secret_of_file(const std::filesystem::path& file, bool is_first, std::chrono::seconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (true) {
    if (const std::optional<Secret> secret = read(file)) return *secret;
    if (is_first) {
      make(file);
    } else if (std::chrono::steady_clock::now() > end) {
      fail(ExitCode::io, file,
           fmt::format("rank 0 has not made it within {} s; let all ranks share this directory, "
                       "or set {} for all of them",
                       patience.count(), kVariable));
    } else {
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }
}

uint64_t proof(const Secret& secret, std::string_view text) {
  const std::string_view key(reinterpret_cast<const char*>(secret.data()), secret.size());
  const uint64_t low = little_endian(key.substr(0, 8)), high = little_endian(key.substr(8));
  SipHash state{low ^ 0x736f6d6570736575U, high ^ 0x646f72616e646f6dU, low ^ 0x6c7967656e657261U,
                high ^ 0x7465646279746573U};
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) state.put(little_endian(text.substr(at, 8)));
  state.put(uint64_t{text.size()} << 56 | little_endian(text.substr(at)));
  state.c ^= 0xff;
  state.mix(4);
  return state.a ^ state.b ^ state.c ^ state.d;
}

}  // namespace trainer
