// SPDX-License-Identifier: Apache-2.0
#include "core/host/children.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include "tests/catch.h"

#include "core/base/file.h"
#include "core/host/captured_output.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using std::chrono::milliseconds;

ChildStart shell(const std::string& line) {
  return {.line = {"/bin/sh", "-c", line}};
}

/// The next child that ends.
ChildEnd next_end(Children& children) {
  for (int i = 0; i < 1000; ++i) {
    if (const std::optional<ChildEnd> end = children.await_any(milliseconds(20))) return *end;
  }
  throw std::runtime_error("no child ends");
}

}  // namespace

TEST_CASE("children end one by one, each with its own status") {
  Children children(SIGKILL);
  std::map<size_t, int> codes;
  const std::vector<int> wanted = {3, 0, 71};
  for (const int code : wanted) codes[children.start(shell("exit " + std::to_string(code)))] = code;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const ChildEnd end = next_end(children);
    REQUIRE(WIFEXITED(end.status));
    CHECK(WEXITSTATUS(end.status) == codes.at(end.child));
    CHECK_FALSE(end.was_late);
    codes.erase(end.child);
  }
  CHECK(codes.empty());
  CHECK_FALSE(children.await_any(milliseconds(1)));
}

TEST_CASE("a child that takes too long is killed, and that is no kill by somebody else") {
  Children children(SIGKILL);
  ChildStart late = shell("sleep 60");
  late.deadline = std::chrono::seconds(0);
  children.start(late);
  const ChildEnd end = next_end(children);
  CHECK(end.was_late);
  CHECK(WIFSIGNALED(end.status));
  CHECK_FALSE(children.killed());
  const size_t other = children.start(shell("kill -9 $$"));
  CHECK(next_end(children).child == other);
  CHECK(children.killed() == other);
  CHECK(signal_text(SIGKILL) == "signal 9 (Killed)");
}

TEST_CASE("a child's output, environment, score for lack of memory and inherited files are its own") {
  const test::ScratchDirectory scratch;
  const CapturedOutput output, errors;
  FileDescriptor lock = open_file(scratch / "lock", O_RDWR | O_CREAT);
  REQUIRE(::flock(lock.get(), LOCK_EX | LOCK_NB) == 0);
  Children children(SIGKILL);
  ChildStart start = shell("echo $WORD; cat /proc/self/oom_score_adj; ls /proc/self/fd >&2; exec sleep 60");
  start.variables = {{"WORD", "x y"}};
  start.output = output.descriptor();
  start.errors = errors.descriptor();
  start.oom_score = 321;
  start.inherited = {lock.get()};
  children.start(start);
  for (int i = 0; i < 500 && errors.text().empty(); ++i) children.await_any(milliseconds(10));
  CHECK(output.text() == "x y\n321\n");
  CHECK_THAT(errors.text(), Catch::Matchers::ContainsSubstring("\n" + std::to_string(lock.get()) + "\n"));
  // The lock outlives this process's own descriptor.
  const FileDescriptor again = open_file(scratch / "lock", O_RDWR);
  lock.reset();
  CHECK(::flock(again.get(), LOCK_EX | LOCK_NB) != 0);
  children.send_signal(SIGKILL);
  next_end(children);
}

TEST_CASE("a program that is not there ends with 127") {
  Children children(SIGKILL);
  children.start({.line = {"/no/such/program"}});
  CHECK(WEXITSTATUS(next_end(children).status) == kProgramNotFound);
}

}  // namespace trainer
