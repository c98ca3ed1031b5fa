// SPDX-License-Identifier: Apache-2.0
#include "core/data/data_error.h"

#include <fmt/core.h>

#include "core/base/error.h"
#include "core/base/printable.h"

namespace trainer {

void fail_in_file(const std::string& path, int64_t offset, const std::string& expected,
                  const std::string& found) {
  throw Error(ExitCode::data,
              fmt::format("{}: offset {}: expected {}, found {}", one_line(path), offset, expected, found));
}

}  // namespace trainer
