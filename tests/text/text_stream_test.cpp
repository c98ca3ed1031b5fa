// SPDX-License-Identifier: Apache-2.0
#include "core/text/text_stream.h"

#include <algorithm>
#include <stdexcept>

#include "core/base/rng.h"
#include "core/text/utf8.h"
#include "tests/catch.h"
#include "tests/text/files.h"

using namespace trainer;

namespace {

std::vector<std::string> pieces(const Tokenizer& tokenizer, const std::string& bytes) {
  TextStream stream(tokenizer, std::vector<int32_t>{'x'});
  std::vector<std::string> all;
  for (const char byte : bytes) all.push_back(stream.add(static_cast<unsigned char>(byte)));
  all.push_back(stream.finish());
  return all;
}

using Texts = std::vector<std::string>;

/// Words: token 0 is "▁a", token 1 "b". As in SentencePiece, a text loses the blank before its first word,
/// and a token that is part of a character alone is U+FFFD: 2 and 3 together are "é".
class SpacedWords final : public Tokenizer {
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
  CHECK(pieces(*bytes, "\xFF") == Texts{"\uFFFD", ""});
  CHECK(pieces(*bytes, "\xE0\x80z") == Texts{"", "\uFFFD\uFFFD", "z", ""});
  CHECK(pieces(*bytes, "\xEF\xBF\xBDz") == Texts{"", "", "", "\uFFFDz", ""});
  CHECK(pieces(*bytes, "\x80") == Texts{"\uFFFD", ""});
  CHECK(pieces(*bytes, "\xF0\x9F") == Texts{"", "", "\uFFFD"});
}

TEST_CASE("text stream: blanks before words stay, and characters of several tokens come whole") {
  const SpacedWords words;
  TextStream stream(words, std::vector<int32_t>{1});
  Texts found;
  for (const int32_t token : {0, 1, 2, 3, 0, 2, 0}) found.push_back(stream.add(token));
  CHECK(found == Texts{" a", "b", "", "é", " a", "", "\uFFFD a"});
}

namespace {

std::string well_formed(const std::string& bytes) {
  std::string fixed;
  return replace_malformed(bytes, fixed) > 0 ? fixed : bytes;
}

/// Checks that the pieces are well-formed and together what all tokens at once give.
void check_stream(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens, size_t before) {
  TextStream stream(tokenizer, std::span(tokens).first(before));
  std::string found;
  for (size_t i = before; i < tokens.size(); ++i) {
    const std::string piece = stream.add(tokens[i]);
    CHECK(is_utf8(piece));
    found += piece;
  }
  found += stream.finish();
  const std::string all = tokenizer.decode(tokens), start = tokenizer.decode(std::span(tokens).first(before));
  REQUIRE(all.starts_with(start));
  CHECK(found == well_formed(all.substr(start.size())));
}

/// The tokens that stand for a text, or for a single piece of the vocabulary.
std::vector<int32_t> parts_of(const Tokenizer& tokenizer) {
  std::vector<int32_t> parts;
  for (const char* text : {" ", "  ", "a", "\uFFFD", "\u00e9", "\u2581", "\U0001F642", "\n"})
    for (const int32_t token : tokenizer.encode(text)) parts.push_back(token);
  return parts;
}

}  // namespace

TEST_CASE("text stream: the pieces are what decoding all tokens gives, whatever the tokens are") {
  std::vector<std::unique_ptr<Tokenizer>> all;
  all.push_back(byte_tokenizer());
  for (const char* name : {"gpt2", "llama3.json", "qwen2.json", "sp_bpe.model", "sp_plain.model"})
    all.push_back(open_tokenizer(tokenizer_fixture(name)));
  for (const auto& tokenizer : all) {
    const std::vector<int32_t> parts = parts_of(*tokenizer);
    const std::vector<int32_t> prompt = tokenizer->encode("a b");
    for (uint64_t run = 0; run < 60; ++run) {
      INFO(tokenizer->name() << " of " << tokenizer->vocabulary() << ", run " << run);
      RandomStream random(random_key(run, "tokens"));
      std::vector<int32_t> tokens = run % 3 == 0 ? std::vector<int32_t>{} : prompt;
      const size_t before = tokens.size();
      for (int i = 0; i < 30; ++i) {
        const bool is_part = random.next_below(2) == 0;
        tokens.push_back(is_part ? parts[random.next_below(static_cast<uint32_t>(parts.size()))]
                                 : static_cast<int32_t>(
                                       random.next_below(static_cast<uint32_t>(tokenizer->vocabulary()))));
      }
      check_stream(*tokenizer, tokens, before);
    }
  }
}
