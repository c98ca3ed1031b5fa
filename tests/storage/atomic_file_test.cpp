// SPDX-License-Identifier: Apache-2.0
#include "core/storage/atomic_file.h"

#include <sys/stat.h>

#include <stdexcept>

#include "tests/storage/file_size_limit.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using test::contents;
using test::error_text;
using test::FileSizeLimit;
using test::put;
using test::ScratchDirectory;

TEST_CASE("an atomic write replaces the file and leaves nothing else") {
  const ScratchDirectory scratch;
  write_atomically(scratch / "a.txt", "first");
  CHECK(contents(scratch / "a.txt") == "first");
  write_atomically(scratch / "a.txt", [](const ByteSink& sink) {
    sink(std::as_bytes(std::span("sec", 3)));
    sink({});
    sink(std::as_bytes(std::span("ond", 3)));
  });
  CHECK(contents(scratch / "a.txt") == "second");
  CHECK(scratch.names() == std::set<std::string>{"a.txt"});
}

TEST_CASE("an atomic write gives the usual permissions") {
  const ScratchDirectory scratch;
  const mode_t before = ::umask(0027);
  write_atomically(scratch / "a.txt", "text");
  ::umask(before);
  struct stat status = {};
  REQUIRE(::stat((scratch / "a.txt").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0640);
}

TEST_CASE("the old file stands until the new one is whole") {
  const ScratchDirectory scratch;
  put(scratch / "a.txt", "old");
  write_atomically(scratch / "a.txt", [&](const ByteSink& sink) {
    sink(std::as_bytes(std::span("new", 3)));
    CHECK(contents(scratch / "a.txt") == "old");
    CHECK(scratch.names().size() == 2);
  });
  CHECK(contents(scratch / "a.txt") == "new");
}

TEST_CASE("a write that fails leaves the old file and no temporary") {
  const ScratchDirectory scratch;
  put(scratch / "a.txt", "old");
  const std::string large(1 << 20, 'x');
  const std::string text = error_text(ExitCode::io, [&] {
    const FileSizeLimit limit(100'000);
    write_atomically(scratch / "a.txt", large);
  });
  CHECK(text == (scratch / "a.txt").string() + ": write: File too large");
  CHECK(contents(scratch / "a.txt") == "old");
  CHECK(scratch.names() == std::set<std::string>{"a.txt"});
}

TEST_CASE("a producer that throws leaves the old file and no temporary") {
  const ScratchDirectory scratch;
  put(scratch / "a.txt", "old");
  const auto produce = [](const ByteSink& sink) {
    sink(std::as_bytes(std::span("new", 3)));
    throw std::runtime_error("stopped");
  };
  CHECK_THROWS_WITH(write_atomically(scratch / "a.txt", produce), "stopped");
  CHECK(contents(scratch / "a.txt") == "old");
  CHECK(scratch.names() == std::set<std::string>{"a.txt"});
}

TEST_CASE("a missing directory and a directory in the file's place are named") {
  const ScratchDirectory scratch;
  const auto missing = scratch / "no/a.txt";
  CHECK(error_text(ExitCode::io, [&] { write_atomically(missing, "text"); }) ==
        missing.string() + ": open of a new file: No such file or directory");
  std::filesystem::create_directories(scratch / "taken/inside");
  const std::string text = error_text(ExitCode::io, [&] { write_atomically(scratch / "taken", "text"); });
  CHECK(text.find("taken: rename: ") != std::string::npos);
  CHECK(scratch.names() == std::set<std::string>{"taken"});
}

TEST_CASE("what a killed process left does not stand in the way") {
  const ScratchDirectory scratch;
  const std::string stale = ".a.txt.tmp-" + std::to_string(::getpid()) + "-0";
  put(scratch / stale, "left behind");
  write_atomically(scratch / "a.txt", "text");
  CHECK(contents(scratch / "a.txt") == "text");
  CHECK(contents(scratch / stale) == "left behind");
}

}  // namespace
TEST_CASE("only names that an atomic write gives count as unfinished") {
  for (const char* name : {".metrics.jsonl.tmp-1-0", ".a.tmp-b.tmp-77-12"}) CHECK(is_unfinished(name));
  for (const char* name : {"metrics.jsonl.tmp-1-0", ".notes.tmp-draft", ".tmp-1-0", ".a.tmp-1", ".a.tmp--0",
                           ".a.tmp-1-", ".a.tmp-1-0x", ".a.tmp-1-0-2"})
    CHECK_FALSE(is_unfinished(name));
}

TEST_CASE("a file that is being written when its directory moves comes or goes with that") {
  const ScratchDirectory scratch;
  const auto first = scratch / "first", away = scratch / "away";
  const bool fails = GENERATE(false, true);
  std::filesystem::create_directory(first);
  const auto move = [&](const ByteSink& sink) {
    sink(std::as_bytes(std::span("half", 4)));
    std::filesystem::rename(first, away);
    std::filesystem::create_directory(first);
    if (fails) throw std::runtime_error("no more");
  };
  if (fails) {
    CHECK_THROWS_WITH(write_atomically(first / "file", move), "no more");
  } else {
    write_atomically(first / "file", move);
  }
  CHECK(std::filesystem::is_empty(first));
  CHECK(std::filesystem::exists(away / "file") != fails);
  CHECK(std::distance(std::filesystem::directory_iterator(away), {}) == (fails ? 0 : 1));
}

}  // namespace trainer
