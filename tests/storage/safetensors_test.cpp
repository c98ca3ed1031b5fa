// SPDX-License-Identifier: Apache-2.0
#include "core/storage/safetensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using test::contents;
using test::error_text;
using test::put;
using test::ScratchDirectory;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

uint64_t header_length(const std::string& file) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  return length;
}

/// A file as another program might write it.
std::string raw_file(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return bytes_of(std::vector<uint64_t>{length}) + header + data;
}

std::string entry(const std::string& dtype, const std::string& shape, int64_t begin, int64_t end) {
  return "{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":[" + std::to_string(begin) +
         "," + std::to_string(end) + "]}";
}

std::vector<float> random_values(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (float& value : values) value = draw(generator);
  return values;
}

TEST_CASE("safetensors: a file of torch.save is known, and the line that converts it is printed") {
  const ScratchDirectory scratch;
  const std::string zip("PK\3\4\0\0\x08\x08\0\0\0\0", 12), pickle("\x80\2\x8a\nl\xfc\x9c\x46\xf9\x20", 10);
  for (const std::string& bytes : {zip, pickle}) {
    for (const char* name : {"w.pth", "it's.bin"}) {
      const auto path = scratch / name;
      put(path, bytes + std::string(100, 'x'));
      const std::string text = error_text(ExitCode::data, [&] { SafetensorsFile file(path); });
      INFO(text);
      CHECK(text.find("it was written by torch.save; convert it with\n  trainer import '") !=
            std::string::npos);
      CHECK(text.find(" --out '") != std::string::npos);
      const bool is_plain = std::string(name) == "w.pth";
      CHECK(text.find(is_plain ? "/w.safetensors'" : "/it'\\''s.safetensors'") != std::string::npos);
    }
  }
  put(scratch / "other", "not from anywhere, but long");
  CHECK(error_text(ExitCode::data, [&] { SafetensorsFile file(scratch / "other"); }).find("torch") ==
        std::string::npos);
}

TEST_CASE("safetensors: what is written reads back, bit for bit") {
  const ScratchDirectory scratch;
  const std::vector<StoredTensor> tensors = {{"fc.weight", "F32", {31, 33}},
                                             {"bn.num_batches", "I64", {}},
                                             {"empty", "F32", {3, 0, 2}},
                                             {"fc.bias \"q\" \n é", "F32", {31}},
                                             {"half", "BF16", {3}}};
  for (const unsigned seed : {1u, 2u, 3u}) {
    const std::vector<std::string> data = {
        bytes_of(random_values(31 * 33, seed)), bytes_of(std::vector<int64_t>{-7}), "",
        bytes_of(random_values(31, seed + 100)), bytes_of(std::vector<uint16_t>{0x3F80, 0xC000, 0x7F80})};
    write_safetensors(scratch / "m", tensors, {{"format", "pt"}}, [&](size_t i, const ByteSink& sink) {
      const auto bytes = std::as_bytes(std::span(data[i]));
      sink(bytes.first(bytes.size() / 3));
      sink(bytes.subspan(bytes.size() / 3));
    });
    const SafetensorsFile file(scratch / "m");
    CHECK(file.metadata() == StoredMetadata{{"format", "pt"}});
    REQUIRE(file.tensors().size() == tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const StoredTensor* found = file.find(tensors[i].name);
      REQUIRE(found != nullptr);
      CHECK(found->dtype == tensors[i].dtype);
      CHECK(found->shape == tensors[i].shape);
      std::string bytes(data[i].size(), '?');
      file.read_bytes(*found, std::as_writable_bytes(std::span(bytes)));
      CHECK(bytes == data[i]);
      if (found->dtype == "F32") CHECK(bytes_of(file.read_floats(*found)) == data[i]);
    }
    CHECK(file.read_floats(*file.find("half")) ==
          std::vector<float>{1, -2, std::numeric_limits<float>::infinity()});
    CHECK(file.find("fc") == nullptr);
  }
}

TEST_CASE("safetensors: the file is laid out as the format says") {
  const ScratchDirectory scratch;
  for (size_t length = 1; length <= 9; ++length) {
    const std::vector<StoredTensor> tensors = {{std::string(length, 'z'), "F32", {2}}, {"a", "F32", {1}}};
    const std::vector<float> values = {1, 2, 3};
    write_safetensors(scratch / "m", tensors, {}, [&](size_t i, const ByteSink& sink) {
      sink(std::as_bytes(std::span(values).subspan(i == 0 ? 0 : 2, i == 0 ? 2 : 1)));
    });
    const std::string file = contents(scratch / "m");
    const size_t start = 8 + header_length(file);
    CHECK(start % 8 == 0);
    CHECK(file.substr(start) == bytes_of(values));
    const std::string header = file.substr(8, start - 8);
    const std::string expected = "{\"" + tensors[0].name + "\":" + entry("F32", "[2]", 0, 8) +
                                 ",\"a\":" + entry("F32", "[1]", 8, 12) + "}";
    CHECK(header.substr(0, expected.size()) == expected);
    CHECK(header.find_first_not_of(' ', expected.size()) == std::string::npos);
    CHECK(header.size() < expected.size() + 8);
  }
}

TEST_CASE("safetensors: a file without tensors") {
  const ScratchDirectory scratch;
  write_safetensors(scratch / "m", {}, {}, [](size_t, const ByteSink&) {});
  CHECK(contents(scratch / "m") == raw_file("{}      ", ""));
  CHECK(SafetensorsFile(scratch / "m").tensors().empty());
}

TEST_CASE("safetensors: the writer refuses our own mistakes and keeps the old file") {
  const ScratchDirectory scratch;
  put(scratch / "m", "old");
  const auto write = [&](const std::vector<StoredTensor>& tensors, size_t bytes) {
    return error_text(ExitCode::internal, [&] {
      write_safetensors(scratch / "m", tensors, {},
                        [&](size_t, const ByteSink& sink) { sink(std::vector<std::byte>(bytes)); });
    });
  };
  CHECK(write({{"a", "F32", {2}}}, 7).find("\"a\" was given 1 bytes too few") != std::string::npos);
  CHECK(write({{"a", "F32", {2}}}, 9).find("\"a\" was given 1 bytes too many") != std::string::npos);
  CHECK(write({{"a", "F32", {2}}, {"a", "F32", {2}}}, 8).find("two tensors named \"a\"") !=
        std::string::npos);
  CHECK(write({{"a", "f32", {2}}}, 8).find("f32 of shape [2]") != std::string::npos);
  CHECK(write({{"__metadata__", "F32", {2}}}, 8).find("__metadata__") != std::string::npos);
  CHECK(contents(scratch / "m") == "old");
  CHECK(scratch.names().size() == 1);
}

TEST_CASE("safetensors: half precision is converted exactly") {
  const ScratchDirectory scratch;
  std::vector<uint16_t> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const std::string dtype : {"F16", "BF16"}) {
    write_safetensors(scratch / "m", {{"x", dtype, {1 << 16}}}, {},
                      [&](size_t, const ByteSink& sink) { sink(std::as_bytes(std::span(all))); });
    const SafetensorsFile file(scratch / "m");
    const std::vector<float> values = file.read_floats(file.tensors()[0]);
    const int fraction_bits = dtype == "F16" ? 10 : 7, exponents = dtype == "F16" ? 31 : 255;
    const int bias = exponents / 2;
    size_t wrong = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const double sign = (i >> 15) != 0 ? -1 : 1;
      const int exponent = static_cast<int>(i & 0x7FFF) >> fraction_bits;
      const int fraction = static_cast<int>(i) & ((1 << fraction_bits) - 1);
      if (exponent == exponents) {
        const bool ok =
            fraction == 0 ? std::isinf(values[i]) && (values[i] < 0) == (sign < 0) : std::isnan(values[i]);
        wrong += ok ? 0 : 1;
        continue;
      }
      const int significand = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
      const double expected = sign * std::ldexp(significand, std::max(exponent, 1) - bias - fraction_bits);
      if (values[i] != expected || std::signbit(values[i]) != (sign < 0)) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("safetensors: double precision is converted across pieces, other types are refused") {
  const ScratchDirectory scratch;
  std::vector<double> values(100'003);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i));
  write_safetensors(scratch / "m", {{"pad", "U8", {3}}, {"x", "F64", {100'003}}}, {},
                    [&](size_t i, const ByteSink& sink) {
                      sink(i == 0 ? std::as_bytes(std::span("abc", 3)) : std::as_bytes(std::span(values)));
                    });
  const SafetensorsFile file(scratch / "m");
  const std::vector<float> floats = file.read_floats(*file.find("x"));
  REQUIRE(floats.size() == values.size());
  size_t wrong = 0;
  for (size_t i = 0; i < values.size(); ++i) wrong += floats[i] == static_cast<float>(values[i]) ? 0 : 1;
  CHECK(wrong == 0);
  const std::string text = error_text(ExitCode::data, [&] { file.read_floats(*file.find("pad")); });
  CHECK(text == (scratch / "m").string() + ": tensor \"pad\" holds U8, expected F32, F16, BF16, F64 or I8");
}

TEST_CASE("safetensors: weights of 8 bits are read with the scales of their outputs") {
  const ScratchDirectory scratch;
  const std::array<int8_t, 6> integers{1, -2, 63, -63, 0, 127};
  const auto file_with = [&](const std::string& name, const std::vector<float>& scales) {
    write_safetensors(scratch / "m", {{"w", "I8", {2, 3}}, {name, "F32", {std::ssize(scales)}}}, {},
                      [&](size_t i, const ByteSink& sink) {
                        sink(i == 0 ? std::as_bytes(std::span(integers)) : std::as_bytes(std::span(scales)));
                      });
    return SafetensorsFile(scratch / "m");
  };
  const SafetensorsFile file = file_with("w_scale", {0.5F, 2});
  CHECK(file.read_floats(*file.find("w")) == std::vector<float>{0.5F, -1, 31.5F, -126, 0, 254});
  CHECK(file.is_scale(*file.find("w_scale")));
  CHECK(!file.is_scale(*file.find("w")));
  const auto refusal = [&](const SafetensorsFile& bad) {
    return error_text(ExitCode::data, [&] { bad.read_floats(*bad.find("w")); });
  };
  const std::string start = (scratch / "m").string() + ": tensor \"w\" holds I8: expected ";
  CHECK(refusal(file_with("scale", {1, 1})) == start + "its scales in \"w_scale\", found none");
  CHECK(refusal(file_with("w_scale", {1, 1, 1})) ==
        start + "F32 2 in \"w_scale\", a scale for each output, found F32 3");
  for (const float bad :
       {0.0F, -1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    CHECK(
        refusal(file_with("w_scale", {1, bad})).starts_with(start + "scales above 0 in \"w_scale\", found "));
}

TEST_CASE("safetensors: files of other writers") {
  const ScratchDirectory scratch;
  const std::string a = "\"a\":" + entry("F32", "[1]", 4, 8), b = "\"b\":" + entry("F32", "[]", 0, 4);
  const std::string none = "\"none\":" + entry("F32", "[0,9223372036854775807]", 4, 4);
  const std::string data = bytes_of(std::vector<float>{5, 6});
  // The header's order is not the data's, and a tensor without elements shares its place with another.
  for (const std::string& header :
       {"{" + a + "," + none + "," + b + "}", "{ " + none + " , " + b + ",\n" + a + "}\n  ",
        "{\"__metadata__\":null," + a + "," + b + "}"}) {
    put(scratch / "m", raw_file(header, data));
    const SafetensorsFile file(scratch / "m");
    CHECK(file.read_floats(*file.find("a")) == std::vector<float>{6});
    CHECK(file.read_floats(*file.find("b")) == std::vector<float>{5});
    CHECK(file.tensors().front().name == "b");
  }
}

TEST_CASE("safetensors: every breach of the format is named") {
  struct Case {
    std::string file, message;
  };
  const std::string four = "1234", one = "\"a\":" + entry("F32", "[1]", 0, 4);
  const auto tensor = [](const std::string& text, const std::string& data) {
    return raw_file("{\"a\":" + text + "}", data);
  };
  const std::vector<Case> cases = {
      {"", "it has 0 bytes"},
      {"1234567", "it has 7 bytes"},
      {bytes_of(std::vector<uint64_t>{100'000'001}) + "{}", "would have 100000001 bytes"},
      {bytes_of(std::vector<uint64_t>{~uint64_t{0}}) + "{}", "would have 18446744073709551615 bytes"},
      {bytes_of(std::vector<uint64_t>{3}) + "{}", "would end at byte 11, the file ends at 10"},
      {raw_file("", ""), "does not start with '{'"},
      {raw_file(" {}", ""), "does not start with '{'"},
      {raw_file("[]", ""), "does not start with '{'"},
      {raw_file("{\"a\":", ""), "is not JSON"},
      {raw_file("{} {}", ""), "is not JSON"},
      {raw_file("{\"\xFF\":" + entry("F32", "[1]", 0, 4) + "}", four), "is not JSON"},
      {raw_file(std::string("{}\0", 3), ""), "zero byte"},
      {raw_file("{\"a\":" + std::string(1000, '['), ""), "nested too deeply"},
      {raw_file("{" + one + "," + one + "}", four), "\"a\" is there twice"},
      {tensor("{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}", four),
       "\"dtype\" is there twice"},
      {raw_file("{\"__metadata__\":{\"k\":1}," + one + "}", four), "the value of \"k\" is not text"},
      {raw_file("{\"__metadata__\":[]," + one + "}", four), "__metadata__ is not a map"},
      {tensor("1", four), "tensor \"a\": is not a map"},
      {tensor("{\"shape\":[1],\"data_offsets\":[0,4]}", four), "tensor \"a\": has no dtype"},
      {tensor("{\"dtype\":\"F32\",\"data_offsets\":[0,4]}", four), "tensor \"a\": has no list shape"},
      {tensor("{\"dtype\":\"F32\",\"shape\":[1]}", four), "tensor \"a\": has no list data_offsets"},
      {tensor("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}", four),
       "tensor \"a\": 1 data_offsets, expected 2"},
      {tensor(entry("F128", "[1]", 0, 4), four), "tensor \"a\": unknown dtype \"F128\""},
      {tensor(entry("F32", "[-1]", 0, 4), four), "tensor \"a\": shape holds -1"},
      {tensor(entry("F32", "[1.0]", 0, 4), four), "tensor \"a\": shape holds 1.0"},
      {tensor(entry("F32", "[18446744073709551615]", 0, 4), four),
       "tensor \"a\": shape holds 18446744073709551615"},
      {tensor(entry("F32", "[4294967296,4294967296]", 0, 4), four),
       "tensor \"a\": F32 of shape [4294967296, 4294967296] is no"},
      {tensor(entry("F32", "[2305843009213693952]", 0, 4), four),
       "tensor \"a\": F32 of shape [2305843009213693952] is no"},
      {tensor(entry("F4", "[1]", 0, 1), "1"), "tensor \"a\": F4 of shape [1] is not a whole number"},
      {tensor(entry("F32", "[2]", 0, 4), four),
       "tensor \"a\": F32 of shape [2] needs 8 bytes, data_offsets give it 4"},
      {tensor(entry("F32", "[0]", 0, 4), four), "tensor \"a\": F32 of shape [0] needs 0 bytes"},
      {tensor(entry("F32", "[1]", 4, 0), four), "tensor \"a\": its data ends before it begins"},
      {tensor(entry("F32", "[1]", 4, 8), four + four),
       "tensor \"a\": its data begins at 4, expected 0: it leaves a hole"},
      {raw_file("{" + one + ",\"b\":" + entry("F32", "[1]", 2, 6) + "}", four + "56"),
       "tensor \"b\": its data begins at 2, expected 4: it overlaps"},
      {raw_file("{" + one + ",\"b\":" + entry("F32", "[1]", 5, 9) + "}", four + "56789"),
       "tensor \"b\": its data begins at 5, expected 4: it leaves"},
      {tensor(entry("F32", "[1]", 0, 4), "123"),
       "tensor \"a\": its data ends at 4, the file's at 3: the file is cut short"},
      {tensor(entry("F32", "[1]", 0, 4), "12345"), "1 bytes follow the data of the last tensor"},
      {raw_file("{}", "1"), "1 bytes follow"},
  };
  const ScratchDirectory scratch;
  for (const Case& c : cases) {
    INFO(c.message);
    put(scratch / "m", c.file);
    const std::string text = error_text(ExitCode::data, [&] { SafetensorsFile file(scratch / "m"); });
    INFO(text);
    CHECK(text.find(c.message) != std::string::npos);
    CHECK(text.starts_with((scratch / "m").string() + ": not a valid safetensors file: "));
    CHECK(text.find('\n') == std::string::npos);
  }
}

TEST_CASE("safetensors: no cut or flipped byte of a header is taken for something else") {
  const ScratchDirectory scratch;
  const std::vector<float> values = random_values(6, 1);
  write_safetensors(scratch / "m", {{"w", "F32", {2, 2}}, {"b", "F32", {2}}}, {},
                    [&](size_t i, const ByteSink& sink) {
                      sink(std::as_bytes(std::span(values).subspan(i == 0 ? 0 : 4, i == 0 ? 4 : 2)));
                    });
  const std::string good = contents(scratch / "m");
  for (size_t size = 0; size < good.size(); ++size) {
    put(scratch / "m", good.substr(0, size));
    error_text(ExitCode::data, [&] { SafetensorsFile file(scratch / "m"); });
  }
  for (size_t at = 0; at < good.size() - 24; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      put(scratch / "m", bad);
      try {
        // A flip inside a name or between spaces may leave a valid file, but never one of other sizes.
        const SafetensorsFile file(scratch / "m");
        REQUIRE(file.tensors().size() == 2);
        CHECK(file.tensors()[0].end == 16);
        CHECK(file.read_floats(file.tensors()[1]).size() == 2);
      } catch (const Error& error) {
        CHECK(error.code() == ExitCode::data);
      }
    }
  }
}

TEST_CASE("safetensors: a file that is missing, or shrinks while it is open") {
  const ScratchDirectory scratch;
  CHECK(error_text(ExitCode::io, [&] { SafetensorsFile file(scratch / "m"); }) ==
        (scratch / "m").string() + ": open: No such file or directory");
  error_text(ExitCode::data, [&] { SafetensorsFile file(scratch.path()); });
  put(scratch / "m", raw_file("{\"a\":" + entry("F32", "[1]", 0, 4) + "}", "1234"));
  const SafetensorsFile file(scratch / "m");
  std::filesystem::resize_file(scratch / "m", 20);
  error_text(ExitCode::data, [&] { file.read_floats(file.tensors()[0]); });
}

}  // namespace
}  // namespace trainer
