// SPDX-License-Identifier: Apache-2.0
#include "core/data/data_file.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/printable.h"
#include "core/base/regular_file.h"

namespace trainer {

FileDescriptor open_data_file(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored) && !ignored)
    throw Error(ExitCode::recipe,
                fmt::format("{}: cannot be read: {}", one_line(path), std::strerror(ENOENT)));
  return open_regular(path);
}

}  // namespace trainer
