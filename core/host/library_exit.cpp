// SPDX-License-Identifier: Apache-2.0
#include "core/host/library_exit.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "core/host/exit_report.h"

namespace trainer {
namespace {

struct End {
  ExitCode code;
  std::string text;
};

std::atomic<const End*> awaited = nullptr;

void end_process() {
  const End* const end = awaited;
  if (end == nullptr || ::gettid() == ::getpid()) return;  // the first thread ends the process itself
  const std::string line = "trainer: error: " + end->text + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  report_exit_code(static_cast<int>(end->code));
  ::_exit(static_cast<int>(end->code));
}

}  // namespace

LibraryExit::LibraryExit(ExitCode code, const std::string& text) {
  static const int registered = std::atexit(end_process);
  if (registered == 0) awaited = new End{code, text};
}

// Not freed: another thread may be in an exit() that reads it.
LibraryExit::~LibraryExit() {
  awaited = nullptr;
}

}  // namespace trainer
