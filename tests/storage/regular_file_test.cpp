// SPDX-License-Identifier: Apache-2.0
#include "core/base/regular_file.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>
#include "tests/catch.h"

#include "core/base/error.h"
#include "core/base/file.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using test::error_text;
using test::put;
using test::ScratchDirectory;

void make_socket(const fs::path& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  REQUIRE(path.string().size() < sizeof address.sun_path);
  std::strcpy(address.sun_path, path.c_str());
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
}

}  // namespace

TEST_CASE("what is no regular file is refused with its name and kind, and never waited for") {
  const ScratchDirectory scratch;
  REQUIRE(::mkfifo((scratch / "pipe").c_str(), 0600) == 0);
  fs::create_directory(scratch / "directory");
  fs::create_symlink("/dev/zero", scratch / "zero");
  make_socket(scratch / "socket");
  for (const auto& [name, kind] : std::vector<std::pair<std::string, std::string>>{
           {"pipe", "a pipe"}, {"directory", "a directory"}, {"zero", "a device"}, {"socket", "a socket"}}) {
    const fs::path path = scratch / name;
    const std::string expected = path.string() + ": expected a regular file, found " + kind;
    CHECK(error_text(ExitCode::data, [&] { read_text(path); }) == expected);
    CHECK(error_text(ExitCode::data, [&] { read_lines(path, Links::follow, {}); }) == expected);
    CHECK(error_text(ExitCode::data, [&] { open_regular(path, O_WRONLY | O_APPEND); }) == expected);
  }
}

TEST_CASE("a link is followed where a user names it, and refused within a run's directory") {
  const ScratchDirectory scratch;
  put(scratch / "file", "text");
  fs::create_symlink("file", scratch / "link");
  fs::create_symlink("nowhere", scratch / "dangling");
  CHECK(read_text(scratch / "link") == "text");
  CHECK(read_text(scratch / "dangling") == std::nullopt);
  CHECK(read_text(scratch / "file", Links::refuse) == "text");
  CHECK(read_text(scratch / "none", Links::refuse) == std::nullopt);
  for (const char* name : {"link", "dangling"}) {
    const auto refused = [&](const auto& act) {
      CHECK_THAT(error_text(ExitCode::data, act),
                 ContainsSubstring(std::string(name) + ": expected a regular file, found a symbolic link; "));
    };
    refused([&] { read_text(scratch / name, Links::refuse); });
    refused([&] { open_regular(scratch / name, O_WRONLY | O_CREAT | O_TRUNC, Links::refuse); });
  }
  CHECK(test::contents(scratch / "file") == "text");
  CHECK_FALSE(fs::exists(scratch / "nowhere"));
}

TEST_CASE("a text that is read whole has a limit, and so has a line") {
  const ScratchDirectory scratch;
  put(scratch / "text", "12345");
  CHECK(read_text(scratch / "text", Links::follow, 5) == "12345");
  CHECK_THAT(error_text(ExitCode::data, [&] { read_text(scratch / "text", Links::follow, 4); }),
             ContainsSubstring("text: is larger than 4 bytes"));
  CHECK_THAT(error_text(ExitCode::data, [] { read_input("/dev/zero", 1 << 20); }),
             ContainsSubstring("/dev/zero: is larger than"));
  CHECK(read_text("/proc/self/comm").value_or("").size() > 1);  // which has no size

  put(scratch / "sparse", "");
  fs::resize_file(scratch / "sparse", uintmax_t{1} << 40);
  CHECK_THAT(error_text(ExitCode::data,
                        [&] { read_lines(scratch / "sparse", Links::refuse, [](const auto&, bool) {}); }),
             ContainsSubstring("sparse:1: a line of more than"));
}

TEST_CASE("lines come with or without their end, also across the pieces that are read") {
  const ScratchDirectory scratch;
  const std::string wide(100'000, 'x');
  put(scratch / "text", "a\n\n" + wide + "\nlast");
  std::vector<std::string> lines;
  std::vector<bool> ended;
  CHECK(read_lines(scratch / "text", Links::refuse, [&](const std::string& line, bool is_ended) {
    lines.push_back(line);
    ended.push_back(is_ended);
  }));
  CHECK(lines == std::vector<std::string>{"a", "", wide, "last"});
  CHECK(ended == std::vector<bool>{true, true, true, false});
  CHECK_FALSE(read_lines(scratch / "none", Links::refuse, {}));
}

TEST_CASE("an input that a user names may be a pipe") {
  const ScratchDirectory scratch;
  const fs::path pipe = scratch / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::jthread writer([&] { write_all(open_file(pipe, O_WRONLY).get(), "two\nlines"); });
  CHECK(read_input(pipe) == "two\nlines");
  error_text(ExitCode::io, [&] { read_input(scratch / "none"); });
}

TEST_CASE("a pipe that does not block gets all bytes, as fast as they are read") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_NONBLOCK) == 0);
  const FileDescriptor out(ends[0]), in(ends[1]);
  const std::string text(1 << 20, 'x');  // more than a pipe holds
  size_t read = 0;
  std::atomic<bool> ends_early = false;
  std::thread reader([&] {
    std::vector<char> piece(1 << 16);
    while (read < text.size() && !ends_early) {
      const ssize_t count = ::read(out.get(), piece.data(), piece.size());
      if (count > 0) read += static_cast<size_t>(count);
      if (count <= 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const int error = write_all(in.get(), text);
  ends_early = error != 0;
  reader.join();
  CHECK(error == 0);
  CHECK(read == text.size());
}

}  // namespace trainer
