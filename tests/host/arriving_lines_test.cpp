// SPDX-License-Identifier: Apache-2.0
#include "core/host/arriving_lines.h"

#include <unistd.h>

#include <array>

#include "core/base/error.h"
#include "tests/catch.h"

namespace trainer {
namespace {

using Strings = std::vector<std::string>;

/// A pipe whose writing end a test closes.
class Pipe {
 public:
  Pipe() { REQUIRE(::pipe(ends_.data()) == 0); }
  ~Pipe() {
    ::close(ends_[0]);
    close_input();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int output() const { return ends_[0]; }
  void write(const std::string& text) const {
    REQUIRE(::write(ends_[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  void close_input() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  std::array<int, 2> ends_{};
};

bool never() {
  return false;
}

}  // namespace

TEST_CASE("arriving lines: those that are there come at once, while the pipe stays open") {
  const Pipe pipe;
  ArrivingLines lines(pipe.output());
  pipe.write("a\nb\n\nc\npart");
  CHECK(lines.next(2, never) == Strings{"a", "b"});
  CHECK(lines.next(9, never) == Strings{"", "c"});
  pipe.write(" of a line\n");
  CHECK(lines.next(9, never) == Strings{"part of a line"});
}

TEST_CASE("arriving lines: the last one needs no line break, and an end alone is no line") {
  Pipe pipe;
  ArrivingLines lines(pipe.output());
  pipe.write("a\nb");
  pipe.close_input();
  CHECK(lines.next(9, never) == Strings{"a", "b"});
  CHECK(lines.next(9, never).empty());
  Pipe empty;
  empty.close_input();
  CHECK(ArrivingLines(empty.output()).next(1, never).empty());
}

TEST_CASE("arriving lines: waiting ends when it is asked to, and what cannot be read is an error") {
  const Pipe pipe;
  ArrivingLines lines(pipe.output());
  int asked = 0;
  CHECK(lines.next(1, [&] { return ++asked > 2; }).empty());
  CHECK(asked > 2);
  const int never_open = 100000;
  CHECK_THROWS_AS(ArrivingLines(never_open).next(1, never), Error);
}

TEST_CASE("arriving lines: a line without an end is cut off, and the next one is whole") {
  const Pipe pipe;
  ArrivingLines lines(pipe.output());
  for (int i = 0; i < 3; ++i) {
    pipe.write(std::string(ArrivingLines::kMostBytes - 1, 'x'));
    int asked = 0;
    CHECK(lines.next(1, [&] { return ++asked > 2; }).empty());
  }
  pipe.write("\nnext\n");
  CHECK(lines.next(9, never) == Strings{std::string(ArrivingLines::kMostBytes, 'x'), "next"});
}

}  // namespace trainer
