// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/file.h"

namespace trainer {

/// What a child process writes, kept in memory. Throws Error (exit 71) if the system cannot do that.
class CapturedOutput {
 public:
  CapturedOutput();
  /// For ChildStart::output or ChildStart::errors.
  int descriptor() const { return file_.get(); }
  /// So far; at most 16 MiB.
  std::string text() const;

 private:
  FileDescriptor file_;
};

}  // namespace trainer
