// SPDX-License-Identifier: Apache-2.0
#include "core/host/arriving_lines.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/base/file.h"
#include "core/host/process.h"

namespace trainer {
namespace {

constexpr int kPollMilliseconds = 50;

/// Lines that are there are answered by then, even if bytes keep coming.
constexpr double kMostSeconds = 0.05;

}  // namespace

std::vector<std::string> ArrivingLines::next(size_t most, const std::function<bool()>& stops) {
  while (lines_.empty() && !is_ended_ && !stops()) {
    if (is_ready_within(kPollMilliseconds)) read_some();
  }
  const double began = steady_seconds();
  while (lines_.size() < most && !is_ended_ && steady_seconds() - began < kMostSeconds && is_ready_within(0))
    read_some();
  if (stops()) return {};
  const auto end = lines_.begin() + static_cast<std::ptrdiff_t>(std::min(most, lines_.size()));
  std::vector<std::string> taken(std::move_iterator(lines_.begin()), std::move_iterator(end));
  lines_.erase(lines_.begin(), end);
  return taken;
}

bool ArrivingLines::is_ready_within(int milliseconds) const {
  pollfd watched = {.fd = descriptor_, .events = POLLIN, .revents = 0};
  const int ready = ::poll(&watched, 1, milliseconds);
  if (ready < 0 && errno != EINTR) throw io_error("the standard input", "read", errno);
  return ready > 0;  // at the end of the input too
}

void ArrivingLines::read_some() {
  std::array<char, 65536> bytes;
  const ssize_t got = ::read(descriptor_, bytes.data(), bytes.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got < 0) throw io_error("the standard input", "read", errno);
  take(bytes.data(), static_cast<size_t>(got));
  is_ended_ = got == 0;
  if (is_ended_ && std::exchange(has_begun_, false)) lines_.push_back(std::exchange(begun_, {}));
}

void ArrivingLines::take(const char* bytes, size_t count) {
  std::string_view rest(bytes, count);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    begun_.append(rest.substr(0, std::min(end, kMostBytes - begun_.size())));
    has_begun_ = end == rest.size();
    if (!has_begun_) lines_.push_back(std::exchange(begun_, {}));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

}  // namespace trainer
