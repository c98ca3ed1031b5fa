// SPDX-License-Identifier: Apache-2.0
#include "core/storage/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "core/base/file.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using test::contents;
using test::error_text;
using test::put;
using test::ScratchDirectory;

void write_text(const OutputFile& output, std::string_view text) {
  output.write([&](const ByteSink& sink) { sink(std::as_bytes(std::span(text))); });
}

TEST_CASE("an output that is a link replaces what it leads to, and stays a link") {
  const ScratchDirectory scratch;
  fs::create_directory(scratch / "far");
  put(scratch / "far/a.txt", "old");
  fs::create_symlink("far/a.txt", scratch / "link");
  fs::create_symlink("link", scratch / "link_of_link");
  write_text(OutputFile(scratch / "link_of_link"), "new");
  CHECK(contents(scratch / "far/a.txt") == "new");
  CHECK(fs::is_symlink(scratch / "link"));

  fs::create_symlink("far/b.txt", scratch / "to_nothing");
  write_text(OutputFile(scratch / "to_nothing"), "made");
  CHECK(contents(scratch / "far/b.txt") == "made");
  CHECK(fs::is_symlink(scratch / "to_nothing"));

  fs::create_symlink("circle", scratch / "circle");
  CHECK(error_text(ExitCode::io, [&] { OutputFile output(scratch / "circle"); }) ==
        (scratch / "circle").string() + ": open: Too many levels of symbolic links");
}

TEST_CASE("an output that is a device or a pipe is written to, and stays what it is") {
  const ScratchDirectory scratch;
  fs::create_symlink("/dev/null", scratch / "null");
  write_text(OutputFile(scratch / "null"), "nothing");
  CHECK(fs::is_symlink(scratch / "null"));
  CHECK(fs::is_character_file("/dev/null"));
  const OutputFile full("/dev/full");
  CHECK(error_text(ExitCode::io, [&] { write_text(full, "text"); }) ==
        "/dev/full: write: No space left on device");

  const fs::path pipe = scratch / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::string arrived;
  {
    const std::jthread reader([&] { arrived = contents(pipe); });
    write_text(OutputFile(pipe), "through the pipe");
  }
  CHECK(arrived == "through the pipe");
  CHECK(fs::is_fifo(pipe));
}

TEST_CASE("an output that is a descriptor of the process goes on where that stands") {
  const ScratchDirectory scratch;
  put(scratch / "a.txt", "before ");
  const FileDescriptor file = open_file(scratch / "a.txt", O_WRONLY | O_APPEND);
  for (const char* folder : {"/dev/fd/", "/proc/self/fd/"})
    write_text(OutputFile(folder + std::to_string(file.get())), "after ");
  CHECK(contents(scratch / "a.txt") == "before after after ");
  CHECK(OutputFile("/dev/stdout").is_standard_output());
  CHECK_FALSE(OutputFile("/dev/stderr").is_standard_output());
}

TEST_CASE("an output that is a directory or an input is refused before anything is written") {
  const ScratchDirectory scratch;
  fs::create_directory(scratch / "folder");
  put(scratch / "a.png", "an image");
  fs::create_hard_link(scratch / "a.png", scratch / "b.png");
  fs::create_symlink("a.png", scratch / "c.png");
  const std::vector<fs::path> inputs = {scratch / "none", scratch / "a.png"};
  for (const char* name : {"a.png", "b.png", "c.png"}) {
    INFO(name);
    CHECK(error_text(ExitCode::usage, [&] { OutputFile output(scratch / name, inputs); }) ==
          (scratch / name).string() + ": is an input of this command (" + (scratch / "a.png").string() +
              "); name another file to write");
  }
  for (const char* name : {"folder", "folder/", "none/"}) {
    INFO(name);
    error_text(ExitCode::usage, [&] { OutputFile output(scratch / name); });
  }
  error_text(ExitCode::usage, [] { OutputFile output(""); });
  CHECK(contents(scratch / "a.png") == "an image");
  write_text(OutputFile(scratch / "new.png", inputs), "another");
  CHECK(scratch.names() == std::set<std::string>{"a.png", "b.png", "c.png", "folder", "new.png"});
}

}  // namespace
}  // namespace trainer
