// SPDX-License-Identifier: Apache-2.0
#include "core/data/mapped_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>
#include "tests/catch.h"

#include "core/data/byte_stream.h"
#include "core/data/tokens/stream.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using test::error_text;
using test::put;
using test::ScratchDirectory;

constexpr size_t kBytes = size_t{1} << 20;

int64_t zeros_in(std::span<const std::byte> bytes) {
  return std::ranges::count(bytes, std::byte{0});
}

}  // namespace

TEST_CASE("a mapped file that becomes shorter is an error with its name, in every thread that reads it") {
  const ScratchDirectory scratch;
  put(scratch / "other", std::string(kBytes, 'y'));
  put(scratch / "text", std::string(kBytes, 'x'));
  const MappedFile other((scratch / "other").string());
  const MappedFile file((scratch / "text").string());
  CHECK_NOTHROW(file.require_intact());
  fs::resize_file(scratch / "text", kBytes / 2);
  std::atomic<int> refused{0};
  {
    std::vector<std::jthread> readers;
    for (int i = 0; i < 4; ++i) {
      readers.emplace_back([&] {
        const bool are_zeros = zeros_in(file.bytes()) == kBytes / 2;
        try {
          file.require_intact();
        } catch (const Error& problem) {
          refused += are_zeros && problem.code() == ExitCode::io;
        }
      });
    }
  }
  CHECK(refused == 4);
  CHECK_THAT(
      error_text(ExitCode::io, [&] { file.require_intact(); }),
      ContainsSubstring("text: became shorter while it was read: it had 1048576 bytes and has 524288; "));
  CHECK(zeros_in(other.bytes()) == 0);
  CHECK_NOTHROW(other.require_intact());
  fs::resize_file(scratch / "text", kBytes);
  CHECK_THAT(error_text(ExitCode::io, [&] { file.require_intact(); }),
             ContainsSubstring("a part of it could not be read"));
}

TEST_CASE("bytes lost within a page, where the system gives no signal, are noticed too") {
  const ScratchDirectory scratch;
  put(scratch / "text", std::string(100, 'x'));
  const MappedFile file((scratch / "text").string());
  fs::resize_file(scratch / "text", 99);
  CHECK_THAT(error_text(ExitCode::io, [&] { file.require_intact(); }), ContainsSubstring("it had 100 bytes"));
}

TEST_CASE("a mapped file that another one replaces, or that is removed, keeps its bytes") {
  const ScratchDirectory scratch;
  put(scratch / "text", std::string(100, 'x'));
  put(scratch / "new", "");
  const MappedFile file((scratch / "text").string());
  fs::rename(scratch / "new", scratch / "text");
  CHECK_NOTHROW(file.require_intact());
  fs::remove(scratch / "text");
  CHECK_NOTHROW(file.require_intact());
  CHECK(zeros_in(file.bytes()) == 0);
}

TEST_CASE("tokens of a shard that has become shorter are no tokens") {
  const ScratchDirectory scratch;
  put(scratch / "shard.bin", std::string(kBytes, '\1'));
  const TokenStream stream = open_token_shards({(scratch / "shard.bin").string()}, 2);
  std::vector<int32_t> tokens(100);
  stream.read(stream.size() - 100, 1 << 16, tokens);
  CHECK(tokens.front() == 0x101);
  fs::resize_file(scratch / "shard.bin", kBytes / 2);
  CHECK_THAT(error_text(ExitCode::io, [&] { stream.read(stream.size() - 100, 1 << 16, tokens); }),
             ContainsSubstring("shard.bin: became shorter"));
}

TEST_CASE("files of samples that are pipes or devices are refused, not waited for") {
  const ScratchDirectory scratch;
  REQUIRE(::mkfifo((scratch / "pipe").c_str(), 0600) == 0);
  for (const std::string& path : {(scratch / "pipe").string(), std::string("/dev/zero")}) {
    CHECK_THAT(error_text(ExitCode::data, [&] { MappedFile file(path); }),
               ContainsSubstring("expected a regular file, found"));
    CHECK_THAT(error_text(ExitCode::data, [&] { open_byte_stream(path); }),
               ContainsSubstring("expected a regular file, found"));
  }
  error_text(ExitCode::recipe, [&] { open_byte_stream((scratch / "none").string()); });
}

}  // namespace trainer
