// SPDX-License-Identifier: Apache-2.0
#include "core/host/exit_report.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>

namespace trainer {
namespace {

// Signal handlers read it, so it is a plain array, written once at the start.
std::array<char, PATH_MAX> report_path{};

}  // namespace

void report_exit_code_in(const std::string& file) {
  if (file.size() < report_path.size()) std::ranges::copy(file, report_path.begin());
}

void report_exit_code(int code) noexcept {
  if (report_path[0] == '\0') return;
  const int file = ::open(report_path.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return;
  std::array<char, 16> text{};
  const char* const end = std::to_chars(text.data(), text.data() + text.size(), code).ptr;
  [[maybe_unused]] const ssize_t written = ::write(file, text.data(), static_cast<size_t>(end - text.data()));
  ::close(file);
}

}  // namespace trainer
