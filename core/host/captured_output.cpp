// SPDX-License-Identifier: Apache-2.0
#include "core/host/captured_output.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"

namespace trainer {
namespace {

constexpr size_t kMostCaptured = size_t{16} << 20;

}  // namespace

CapturedOutput::CapturedOutput() : file_(::memfd_create("output", MFD_CLOEXEC)) {
  if (file_.get() < 0)
    throw Error(ExitCode::out_of_memory,
                fmt::format("no memory for a process's output: {}", std::strerror(errno)));
}

std::string CapturedOutput::text() const {
  std::string text;
  char bytes[4096];
  while (text.size() < kMostCaptured) {
    const ssize_t count = ::pread(file_.get(), bytes, sizeof bytes, static_cast<off_t>(text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(bytes, static_cast<size_t>(count));
  }
  return text;
}

}  // namespace trainer
