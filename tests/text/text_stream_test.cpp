// SPDX-License-Identifier: Apache-2.0
#include "core/text/text_stream.h"

#include <stdexcept>

#include "tests/catch.h"

using namespace trainer;

namespace {

std::vector<std::string> pieces(const Tokenizer& tokenizer, const std::string& bytes) {
  TextStream stream(tokenizer, int32_t{'x'});
  std::vector<std::string> all;
  for (const char byte : bytes) all.push_back(stream.add(static_cast<unsigned char>(byte)));
  all.push_back(stream.finish());
  return all;
}

using Texts = std::vector<std::string>;

/// Words: token 0 is "▁a", token 1 "b". As in SentencePiece, a text loses the blank before its first word,
/// and a token that is part of a character alone is U+FFFD: 2 and 3 together are "é".
class Words final : public Tokenizer {
 public:
  std::string_view name() const override { return "words"; }
  int64_t vocabulary() const override { return 4; }
  std::optional<int32_t> end_of_text() const override { return std::nullopt; }
  std::unique_ptr<TextEncoder> make_encoder() const override { throw std::logic_error("not encoded"); }
  std::string decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool is_pair = tokens[i] == 2 && i + 1 < tokens.size() && tokens[i + 1] == 3;
      if (is_pair) ++i;
      text += is_pair ? "é" : tokens[i] == 0 ? " a" : tokens[i] == 1 ? "b" : "\uFFFD";
    }
    return text.starts_with(" ") ? text.substr(1) : text;
  }
  uint64_t checksum() const override { return 0; }
};

}  // namespace

TEST_CASE("text stream: characters of several bytes come whole") {
  const auto bytes = byte_tokenizer();
  CHECK(pieces(*bytes, "ab") == Texts{"a", "b", ""});
  CHECK(pieces(*bytes, "é") == Texts{"", "é", ""});
  CHECK(pieces(*bytes, "a€b") == Texts{"a", "", "", "€", "b", ""});
  CHECK(pieces(*bytes, "🙂🙂") == Texts{"", "", "", "🙂", "", "", "", "🙂", ""});
}

TEST_CASE("text stream: what is no character is U+FFFD, at once or at the end") {
  const auto bytes = byte_tokenizer();
  CHECK(pieces(*bytes, "\xC3z") == Texts{"", "\uFFFDz", ""});
  CHECK(pieces(*bytes, "\xFF") == Texts{"", "\uFFFD"});
  CHECK(pieces(*bytes, "\x80") == Texts{"\uFFFD", ""});
  CHECK(pieces(*bytes, "\xF0\x9F") == Texts{"", "", "\uFFFD"});
}

TEST_CASE("text stream: blanks before words stay, and characters of several tokens come whole") {
  const Words words;
  TextStream stream(words, 1);
  Texts found;
  for (const int32_t token : {0, 1, 2, 3, 0, 2, 0}) found.push_back(stream.add(token));
  CHECK(found == Texts{" a", "b", "", "é", " a", "", "\uFFFD a"});
}
