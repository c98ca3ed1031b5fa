// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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

/// The context of the key for proofs. A key for another purpose would need another context.
constexpr std::string_view kPurpose = "trainer: proofs of ranks";
constexpr size_t kKeyBytes = 32, kProofBytes = 32;

const unsigned char* unsigned_bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

[[noreturn]] void fail(ExitCode code, const std::filesystem::path& file, const std::string& text) {
  throw Error(code, fmt::format("{}: {}", one_line(file.string()), text));
}

/// The file appears complete or not at all. Another process may have been first.
void make(const std::filesystem::path& file) {
  std::string text = to_hex(random_bytes()), name = file.string() + ".XXXXXX";
  text += '\n';
  const int descriptor = ::mkstemp(name.data());  // of mode 0600
  if (descriptor < 0) fail(ExitCode::io, file, std::strerror(errno));
  const bool is_written = ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int problem = errno;
  ::sodium_memzero(text.data(), text.size());
  ::close(descriptor);
  const bool is_there = is_written && (::link(name.c_str(), file.c_str()) == 0 || errno == EEXIST);
  const int other_problem = errno;
  ::unlink(name.c_str());
  if (!is_there)
    fail(ExitCode::io, file,
         fmt::format("{}; or set {} for all ranks", std::strerror(is_written ? other_problem : problem),
                     kVariable));
}

/// The file's text; nothing if there is no file.
std::optional<Secret> read(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0 && errno == ENOENT) return std::nullopt;
  if (descriptor < 0) fail(ExitCode::io, file, std::strerror(errno));
  struct stat about {};
  std::array<char, kDigits + 2> text{};
  const bool is_known = ::fstat(descriptor, &about) == 0;
  const ssize_t bytes = ::read(descriptor, text.data(), text.size());
  const int problem = errno;
  ::close(descriptor);
  auto secret =
      from_hex(std::string_view(text.data(), std::min<size_t>(kDigits, static_cast<size_t>(bytes))));
  ::sodium_memzero(text.data(), text.size());
  if (!is_known || bytes < 0) fail(ExitCode::io, file, std::strerror(problem));
  if ((about.st_mode & 077) != 0)
    fail(ExitCode::usage, file,
         "others can read the secret of the ranks; remove it, and a new one is made, or set TRAINER_SECRET "
         "for all ranks");
  if (!secret) fail(ExitCode::usage, file, "is not the secret of ranks; remove it, and a new one is made");
  return secret;
}

}  // namespace

Secret::~Secret() {
  ::sodium_memzero(bytes.data(), bytes.size());
}

bool Secret::operator==(const Secret& other) const {
  return ::sodium_memcmp(bytes.data(), other.bytes.data(), bytes.size()) == 0;
}

/// libsodium aborts the process if there are no random bytes, so ask the system first.
Secret random_bytes() {
  uint8_t probe = 0;
  if (::getrandom(&probe, sizeof probe, 0) != sizeof probe || ::sodium_init() < 0)
    throw Error(ExitCode::no_device,
                fmt::format("the system gives no random bytes: {}", std::strerror(errno)));
  Secret secret;
  ::randombytes_buf(secret.bytes.data(), secret.bytes.size());
  return secret;
}

std::string to_hex(const Secret& secret) {
  std::string text(kDigits + 1, '\0');  // libsodium writes a zero at the end
  ::sodium_bin2hex(text.data(), text.size(), secret.bytes.data(), secret.bytes.size());
  text.pop_back();
  return text;
}

std::optional<Secret> from_hex(std::string_view text) {
  Secret secret;
  if (text.size() != kDigits || ::sodium_hex2bin(secret.bytes.data(), secret.bytes.size(), text.data(),
                                                 text.size(), nullptr, nullptr, nullptr) != 0)
    return std::nullopt;
  return secret;
}

std::optional<Secret> secret_of_environment() {
  const char* text = std::getenv(kVariable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  std::optional<Secret> secret = from_hex(text);
  if (!secret)
    throw Error(ExitCode::usage, fmt::format("{} must be {} hexadecimal digits", kVariable, kDigits));
  return secret;
}

Secret secret_of_file(const std::filesystem::path& file, bool is_first, std::chrono::seconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (true) {
    if (const std::optional<Secret> secret = read(file)) return *secret;
    if (is_first) {
      make(file);
    } else if (std::chrono::steady_clock::now() > end) {
      fail(ExitCode::io, file,
           fmt::format("rank 0 has not made it within {} s; let all ranks share this directory, "
                       "or set {} for all of them",
                       timeout.count(), kVariable));
    } else {
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }
}

std::string proof(const Secret& secret, std::string_view text) {
  std::array<unsigned char, kKeyBytes> key{};
  std::string proven(kProofBytes, '\0');
  ::crypto_generichash(key.data(), key.size(), unsigned_bytes(kPurpose), kPurpose.size(), secret.bytes.data(),
                       secret.bytes.size());
  ::crypto_generichash(reinterpret_cast<unsigned char*>(proven.data()), proven.size(), unsigned_bytes(text),
                       text.size(), key.data(), key.size());
  ::sodium_memzero(key.data(), key.size());
  return proven;
}

bool is_proof(std::string_view proven, const Secret& secret, std::string_view text) {
  return proven.size() == kProofBytes &&
         ::sodium_memcmp(proven.data(), proof(secret, text).data(), kProofBytes) == 0;
}

}  // namespace trainer
