// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/stream.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <span>
#include "tests/catch.h"

#include "tests/data/samples.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr int64_t kAny = int64_t{1} << 31;

template <class Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(numbers));
  std::string copied(bytes.size(), '\0');
  std::ranges::transform(bytes, copied.begin(), [](std::byte byte) { return static_cast<char>(byte); });
  return copied;
}

/// llm.c's header, then the tokens.
template <class Number>
std::string shard(int32_t magic, int32_t version, int32_t count, const std::vector<Number>& tokens) {
  std::vector<int32_t> header(256);
  header[0] = magic, header[1] = version, header[2] = count;
  return bytes_of(header) + bytes_of(tokens);
}

std::vector<int32_t> read(const TokenStream& stream, int64_t begin, int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  stream.read(begin, kAny, tokens);
  return tokens;
}

using Tokens = std::vector<int32_t>;

TEST_CASE("tokens of several shards follow one another, whatever their headers and widths") {
  const TemporaryFolder folder;
  const std::vector<std::string> paths = {folder.path("a"), folder.path("b"), folder.path("c")};
  write_file(paths[0], bytes_of(std::vector<uint16_t>{1, 2, 65535}));
  write_file(paths[1], shard<uint16_t>(20240520, 1, 2, {7, 8}));
  write_file(paths[2], shard<uint32_t>(20240801, 7, 3, {70000, 9, 2147483647}));
  const TokenStream stream = open_token_shards(paths, 2);
  CHECK(stream.size() == 8);
  CHECK(stream.resident_bytes() == 0);
  const Tokens all = {1, 2, 65535, 7, 8, 70000, 9, 2147483647};
  for (int64_t begin = 0; begin < 8; ++begin) {
    for (int64_t count = 0; begin + count <= 8; ++count)
      CHECK(read(stream, begin, count) == Tokens(all.begin() + begin, all.begin() + begin + count));
  }
}

TEST_CASE("raw shards of four bytes and the bytes of text are tokens") {
  const TemporaryFolder folder;
  write_file(folder.path("a"), bytes_of(std::vector<uint32_t>{1, 100000}));
  CHECK(read(open_token_shards({folder.path("a")}, 4), 0, 2) == Tokens{1, 100000});
  write_file(folder.path("t"), "a\xff\n");
  CHECK(read(TokenStream({open_text_piece(folder.path("t"))}), 0, 3) == Tokens{'a', 255, '\n'});
}

TEST_CASE("shards that are empty, odd, or not what their header says are refused with the offset") {
  const TemporaryFolder folder;
  const std::string path = folder.path("shard");
  const auto problem = [&](const std::string& bytes, int64_t width = 2) {
    write_file(path, bytes);
    return data_error([&] { open_token_shards({path}, width); });
  };
  CHECK(problem("") == path + ": offset 0: expected tokens, found an empty file");
  CHECK(problem("abc") == path + ": offset 3: expected tokens of 2 bytes each, found the end of the file");
  CHECK(problem("abcdef", 4) ==
        path + ": offset 6: expected tokens of 4 bytes each, found the end of the file");
  CHECK(problem(shard<uint16_t>(20240520, 2, 2, {7, 8})) ==
        path + ": offset 4: expected version 1 of a shard's header, found 2");
  const std::string wanted =
      ": offset 8: expected the number of tokens in the 4 bytes after the header, found ";
  for (const int32_t count : {-1, 0, 1, 3, 2147483647}) {
    CHECK(problem(shard<uint16_t>(20240520, 1, count, {7, 8})) == path + wanted + std::to_string(count));
  }
  CHECK(problem(shard<uint16_t>(20240520, 1, 0, {})) ==
        path + ": offset 8: expected the number of tokens in the 0 bytes after the header, found 0");
}

TEST_CASE("a token that the network has no output for is refused with file and offset") {
  const TemporaryFolder folder;
  const std::string plain = folder.path("plain"), headed = folder.path("headed");
  write_file(plain, bytes_of(std::vector<uint16_t>{1, 2, 3}));
  write_file(headed, shard<uint32_t>(20240801, 7, 2, {3, 4000000000u}));
  const TokenStream stream = open_token_shards({plain, headed}, 2);
  Tokens into(2);
  stream.read(1, 4, into);
  CHECK(data_error([&] { stream.read(1, 3, into); }) ==
        plain + ": offset 4: expected a token below 3, the network's outputs, found 3");
  CHECK(data_error([&] { stream.read(3, kAny, into); }) ==
        headed + ": offset 1028: expected a token below 2147483648, the network's outputs, found 4000000000");
}

TEST_CASE("the fingerprint tells other tokens and other numbers of them, not other files") {
  const TemporaryFolder folder;
  std::vector<uint16_t> tokens(5000);
  std::iota(tokens.begin(), tokens.end(), uint16_t{0});
  const auto of = [&](const std::vector<uint16_t>& numbers) {
    write_file(folder.path("a"), bytes_of(numbers));
    return open_token_shards({folder.path("a")}, 2).fingerprint();
  };
  const Fingerprint whole = of(tokens);
  const std::vector<uint16_t> first(tokens.begin(), tokens.begin() + 1234),
      rest(tokens.begin() + 1234, tokens.end());
  write_file(folder.path("b"), bytes_of(first));
  write_file(folder.path("c"), bytes_of(rest));
  CHECK(open_token_shards({folder.path("b"), folder.path("c")}, 2).fingerprint() == whole);
  CHECK(fingerprint_difference(whole, of(rest)).has_value());
  tokens[2500] = 7;
  CHECK(fingerprint_difference(whole, of(tokens)) == "other contents");
}

}  // namespace
}  // namespace trainer
