// SPDX-License-Identifier: Apache-2.0
#include "core/import/pickle.h"

#include <string>

#include "core/base/error.h"
#include "core/import/torch_state.h"
#include "tests/catch.h"

namespace trainer {
namespace {

std::string number_code(int64_t number) {
  std::string code = "\x8a\x08";
  for (int i = 0; i < 8; ++i) code += static_cast<char>(static_cast<uint64_t>(number) >> (8 * i));
  return code;
}

std::string text_code(const std::string& text) {
  return std::string("U") + static_cast<char>(text.size()) + text;
}

/// A tensor of two sizes in a storage, in a map.
struct Written {
  int64_t elements = 6, offset = 0, rows = 2, columns = 3, row_stride = 3, column_stride = 1;
  std::string function = "_rebuild_tensor_v2", key = "0", more;  // more arguments

  std::string code() const {
    return "\x80\x02}" + text_code("w") + "ctorch._utils\n" + function + "\n((" + text_code("storage") +
           "ctorch\nFloatStorage\n" + text_code(key) + text_code("cpu") + number_code(elements) + "tQ" +
           number_code(offset) + number_code(rows) + number_code(columns) + "\x86" + number_code(row_stride) +
           number_code(column_stride) + "\x86" + more + "tRs.";
  }
};

std::string pickle_refusal(const std::string& code) {
  Pickle pickle(code, "w.pth");
  try {
    read_torch_state(pickle, pickle.read());
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::data);
    return error.what();
  }
  return "";
}

void check_refused(const Written& written, const std::string& text) {
  CHECK_THAT(pickle_refusal(written.code()), Catch::Matchers::ContainsSubstring("w.pth: byte ") &&
                                                 Catch::Matchers::ContainsSubstring("tensor 'w': " + text));
}

}  // namespace

TEST_CASE("pickle: the key of a storage is short, as each tensor keeps it") {
  Written written;
  written.key = std::string(255, 'k');
  CHECK(pickle_refusal(written.code()).empty());
  const std::string key = std::string("X\0\1\0\0", 5) + std::string(256, 'k');  // of 256 bytes
  std::string code = written.code();
  code.replace(code.find(text_code(written.key)), text_code(written.key).size(), key);
  CHECK_THAT(pickle_refusal(code), Catch::Matchers::ContainsSubstring("key of at most 255 bytes"));
}

TEST_CASE("pickle: a tensor is refused unless its elements are within its storage") {
  CHECK(pickle_refusal(Written{}.code()).empty());
  CHECK(pickle_refusal(Written{.elements = 7, .offset = 1}.code()).empty());
  CHECK(pickle_refusal(Written{.function = "_rebuild_tensor"}.code()).empty());
  const std::string requires_grad_and_hooks = "\x89}", negative = "}" + text_code("neg") + "\x88s";
  CHECK(pickle_refusal(Written{.more = requires_grad_and_hooks}.code()).empty());
  CHECK(pickle_refusal(Written{.more = requires_grad_and_hooks + "}"}.code()).empty());
  check_refused({.more = requires_grad_and_hooks + negative}, "is stored as its negative or conjugate");
  check_refused({.elements = 5}, "its elements from 0 on need more than the 20 bytes");
  check_refused({.offset = 1}, "its elements from 1 on need more than the 24 bytes");
  check_refused({.offset = INT64_MAX}, "its elements from");
  check_refused({.offset = -1}, "expected an offset from 0, found -1");
  check_refused({.rows = -2}, "expected sizes from 0, found -2");
  check_refused({.row_stride = -3}, "expected strides from 0, found -3");
  check_refused({.rows = INT64_MAX / 8}, "shape [1152921504606846975, 3] needs more than 2^63 bytes");
  check_refused({.row_stride = INT64_MAX}, "its strides and sizes exceed 63 bits");
  check_refused({.row_stride = 2}, "its elements overlap");
  check_refused({.row_stride = 0}, "its elements overlap");
  CHECK_THAT(pickle_refusal(Written{.elements = INT64_MAX}.code()),
             Catch::Matchers::ContainsSubstring("a storage's number of elements"));
}

TEST_CASE("pickle: only known instructions and names are read, and nothing below a mark is taken") {
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(pickle_refusal("\x80\x02"
                            "cos\nsystem\nU\x04true\x85R."),
             ContainsSubstring("byte 2: found the name 'os system'"));
  CHECK_THAT(pickle_refusal("\x80\x04\x8c\x02os\x8c\x06system\x93."), ContainsSubstring("'os system'"));
  CHECK_THAT(pickle_refusal("\x80\x02}ios\nsystem\n."), ContainsSubstring("unsupported pickle opcode 0x69"));
  CHECK_THAT(pickle_refusal("\x80\x02\x86."), ContainsSubstring("expected a value before the opcode"));
  CHECK_THAT(pickle_refusal("\x80\x02N(0."), ContainsSubstring("expected a value before the opcode"));
  CHECK_THAT(pickle_refusal("\x80\x02t."), ContainsSubstring("expected a mark"));
  CHECK_THAT(pickle_refusal("\x80\x02h\x07."), ContainsSubstring("found no value 7 in the memo"));
  CHECK_THAT(pickle_refusal("\x80\x02X\xff\xff\xff\xff."), ContainsSubstring("cut short"));
  CHECK_THAT(pickle_refusal("\x80\x02}(Ks."), ContainsSubstring("byte"));
  CHECK_THAT(pickle_refusal("\x80\x06N."), ContainsSubstring("newer protocol"));
}

TEST_CASE("pickle: a list may contain itself, and a long number is negative by its last bit") {
  Pickle pickle(std::string("\x80\x02]q\0h\0a.", 9), "p");
  const PickleValue list = pickle.read();
  REQUIRE(pickle.items_of(list).size() == 1);
  CHECK(pickle.items_of(list)[0].number == list.number);
  Pickle number("\x8a\x01\xfe.", "p");
  CHECK(number.read().number == -2);
}

}  // namespace trainer
