// SPDX-License-Identifier: Apache-2.0
#include "core/host/log.h"

#include <fcntl.h>
#include <fmt/chrono.h>

#include <fmt/core.h>
#include <ctime>
#include <string>

#include "core/base/printable.h"
#include "core/base/regular_file.h"

namespace trainer {

void Log::attach(const std::filesystem::path& path) {
  file_ = open_regular(path, O_WRONLY | O_CREAT | O_APPEND, Links::refuse);
  path_ = path;
}

void Log::write(std::string_view level, std::string_view text) {
  const std::string shown = printable(text);
  if (prefix_.empty() || !level.empty()) screen_.print_line(fmt::format("{}{}{}", prefix_, level, shown));
  if (file_.get() < 0 && !taker_) return;
  const std::string line =
      fmt::format("{:%Y-%m-%dT%H:%M:%SZ} {}{}\n", fmt::gmtime(std::time(nullptr)), level, shown);
  if (taker_) taker_(line);
  if (file_.get() < 0) return;
  const int failure = write_all(file_.get(), line);
  if (failure == 0) return;
  file_.reset();
  screen_.print_line(
      fmt::format("warning: {}; logging to this file stops", io_error(path_, "write", failure).what()));
}

}  // namespace trainer
