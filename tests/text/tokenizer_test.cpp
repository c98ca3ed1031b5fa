// SPDX-License-Identifier: Apache-2.0
#include "core/text/tokenizer.h"

#include <protozero/pbf_writer.hpp>

#include <ctime>
#include <filesystem>
#include <numeric>
#include "tests/catch.h"

#include "core/base/error.h"
#include "core/text/sentence_piece_cuts.h"
#include "core/text/sentence_piece_model.h"
#include "tests/text/files.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Tokens = std::vector<int32_t>;

/// The text of the error on opening, after the exit code: "65 PATH: ...".
std::string problem_of(const std::string& path) {
  try {
    open_tokenizer(path);
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code())) + " " + error.what();
  }
  return "";
}

Tokens tokens_of(const Json& numbers) {
  Tokens tokens;
  for (const Json& number : numbers.items()) tokens.push_back(static_cast<int32_t>(number.integer().value()));
  return tokens;
}

/// Well-formed text from bytes that may begin or end within a character, as the reference returns it.
std::string as_text(const std::string& bytes) {
  const std::string dumped = Json(bytes).dump(-1, Json::NotUtf8::replace);
  return Json::parse(dumped).value().text();
}

TEST_CASE("tokens are those of the reference implementations") {
  const Json all = Json::parse(contents(tokenizer_fixture("cases.json"))).value();
  REQUIRE(all.members().size() == 5);
  for (const auto& [name, cases] : all.members()) {
    const auto tokenizer = open_tokenizer(tokenizer_fixture(name));
    for (const Json& one : cases.items()) {
      CAPTURE(name, one["text"].text());
      const Tokens tokens = tokenizer->encode(one["text"].text());
      CHECK(tokens == tokens_of(one["tokens"]));
      CHECK(as_text(tokenizer->decode(tokens)) == one["decoded"].text());
    }
  }
}

TEST_CASE("a tokenizer knows its vocabulary and what ends a text") {
  CHECK(open_tokenizer(tokenizer_fixture("gpt2"))->vocabulary() == 420);
  const auto llama = open_tokenizer(tokenizer_fixture("llama3.json"));
  CHECK(llama->name() == "byte-level BPE");
  CHECK(llama->vocabulary() == 424);
  CHECK(llama->end_of_text() == 420);
  CHECK(llama->encode("a<|endoftext|>b") == Tokens{llama->encode("a")[0], 420, llama->encode("b")[0]});
  const auto pieces = open_tokenizer(tokenizer_fixture("sp_bpe.model"));
  CHECK(pieces->name() == "SentencePiece");
  CHECK(pieces->end_of_text() == 2);
  CHECK(byte_tokenizer()->encode("a\xff") == Tokens{'a', 255});
  CHECK(byte_tokenizer()->decode(Tokens{'a', 255}) == "a\xff");
  CHECK(!byte_tokenizer()->end_of_text());
  CHECK_THROWS_AS(llama->decode(Tokens{424}), std::out_of_range);
  CHECK_THROWS_AS(llama->decode(Tokens{-1}), std::out_of_range);
  CHECK_THROWS_AS(pieces->decode(Tokens{100000}), std::out_of_range);
}

TEST_CASE("malformed UTF-8 becomes U+FFFD, once for each maximal part, and is counted") {
  const std::string bad =
      "\xe4\xb8"
      "a\xff\xc0\x80\xed\xa0\x80\xf0\x9f\x98";
  const std::string good = "\uFFFDa\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD";
  for (const char* name : {"qwen2.json", "sp_bpe.model"}) {
    const auto tokenizer = open_tokenizer(tokenizer_fixture(name));
    Tokens tokens;
    CHECK(tokenizer->make_encoder()->append(bad, tokens) == 8);
    CHECK(tokens == tokenizer->encode(good));
  }
}

TEST_CASE("a folder's tokenizer is found, whatever it is") {
  const TokenizerFolder folder;
  std::filesystem::create_directory(folder.path("a"));
  CHECK_THAT(problem_of(folder.path("a")), ContainsSubstring("found 0 of the last and none of the others"));
  std::filesystem::copy(tokenizer_fixture("sp_bpe.model"), folder.path("a/tokenizer.model"));
  CHECK(open_tokenizer(folder.path("a"))->name() == "SentencePiece");
  std::filesystem::copy(tokenizer_fixture("gpt2"), folder.path("a"));
  CHECK(open_tokenizer(folder.path("a"))->vocabulary() == 420);
  CHECK(open_tokenizer(folder.path("a/merges.txt"))->checksum() ==
        open_tokenizer(folder.path("a/vocab.json"))->checksum());
  std::filesystem::copy(tokenizer_fixture("qwen2.json"), folder.path("a/tokenizer.json"));
  CHECK(open_tokenizer(folder.path("a"))->vocabulary() == 424);
  CHECK_THAT(problem_of(folder.path("b")),
             ContainsSubstring("78 " + folder.path("b") + ": there is no such file"));
}

TEST_CASE("a long word takes no more than n log n, and blanks that no letter ends are words as well") {
  const auto tokenizer = open_tokenizer(tokenizer_fixture("qwen2.json"));
  const std::clock_t begin = std::clock();  // of this process: other processes do not count
  const std::string word(2'000'000, 'a'), blanks(2'000'000, ' ');
  CHECK(tokenizer->decode(tokenizer->encode(word)) == word);
  CHECK(tokenizer->decode(tokenizer->encode(blanks)) == blanks);
  // Quadratic time would be minutes.
  CHECK(std::clock() - begin < 30 * CLOCKS_PER_SEC);
}

/// A byte-level tokenizer with this member in place of its own.
std::unique_ptr<Tokenizer> small_with(const std::string& key, const Json& value) {
  const TokenizerFolder folder;
  Json root = small_tokenizer();
  root[key] = value;
  return open_tokenizer(folder.write("tokenizer.json", root.dump()));
}

/// ByteLevel after these steps.
Json pre_tokenizers(Json steps) {
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

Json split_at(const std::string& pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
}

TEST_CASE("of added tokens that begin or end alike the first place counts, and there the longest") {
  const auto tokenizer = small_with(
      "added_tokens", Json::array({{{"content", "xy"}, {"id", 258}},
                                   {{"content", "xyxz"}, {"id", 259}},
                                   {{"content", "yx"}, {"id", 260}},
                                   {{"content", "z"}, {"id", 261}, {"lstrip", true}, {"rstrip", true}}}));
  CHECK(tokenizer->encode("xyxz") == Tokens{259});
  CHECK(tokenizer->encode("xyxyxz") == Tokens{258, 259});
  CHECK(tokenizer->encode("xyx") == Tokens{258, 'x'});
  CHECK(tokenizer->encode("yxy") == Tokens{260, 'y'});
  CHECK(tokenizer->encode("a z  z b") == Tokens{'a', 261, 261, 'b'});
}

TEST_CASE("added tokens are found in time linear in the text, whatever their texts") {
  constexpr size_t kLong = 500'000;
  const std::string run(kLong, 'x');
  const auto tokenizer = small_with(
      "added_tokens", Json::array({{{"content", run + "y"}, {"id", 258}}, {{"content", "x"}, {"id", 259}}}));
  // Byte by byte with a look-up of possible beginnings, it would take 2.5e11 look-ups.
  CHECK(tokenizer->encode(run + run) == Tokens(2 * kLong, 259));
  CHECK(tokenizer->encode("x" + run + "y") == Tokens{259, 258});
}

TEST_CASE("a pattern that tries all ways is given up, not tried from each place of a text") {
  // Some 2^20 ways from each of 20,000 places: fewer than the limit of one, but 2e10 in total.
  const auto tokenizer = small_with("pre_tokenizer", pre_tokenizers(Json::array({split_at("(?:x|x){20}y")})));
  CHECK_THROWS_WITH(tokenizer->encode(std::string(20'000, 'x') + "zy"),
                    ContainsSubstring("match limit exceeded"));
  // Text that needs many steps at few places is matched, with the text before and after it.
  const std::string text = "xy" + std::string(20, 'x') + "y" + "xy";
  CHECK(tokenizer->encode(text).size() == text.size());
  const auto removing = [&] {
    Json split = split_at("(?:x|x){16}y|(?:x|x){16}$");
    split["behavior"] = "Removed";
    return small_with("pre_tokenizer", pre_tokenizers(Json::array({split})));
  }();
  CHECK(removing->encode("ab" + std::string(16, 'x') + "zb" + std::string(20, 'x') + "yc") ==
        removing->encode("ab" + std::string(16, 'x') + "zbxxxxc"));
}

TEST_CASE("a SentencePiece model reads a long text in parts, as it would read the whole") {
  for (const char* name : {"sp_bpe.model", "sp_plain.model"}) {
    const auto tokenizer = open_tokenizer(tokenizer_fixture(name));
    const std::string line = "kalo miren  tas qu \u8a9e the  king. ";
    std::string text;
    while (text.size() < (size_t{3} << 20)) text += line;
    const Tokens whole = tokenizer->encode(text);
    // The same line has the same tokens again and again.
    const size_t period = tokenizer->encode(text.substr(0, 10 * line.size())).size() / 10;
    CHECK(whole.size() >= period * (text.size() / line.size()));
    size_t different = 0;
    for (size_t i = period; i + 2 * period < whole.size(); ++i)
      different += whole[i] != whole[i + period] ? 1 : 0;
    CHECK(different == 0);
  }
}

TEST_CASE("a text is cut between characters that no piece has side by side") {
  SentencePieceCuts cuts;
  for (const char* piece : {"a", "b", "c", "\u8a9e", "\u65e5", "\u2581a", "ab", "\u8a9e\u65e5", "c\u2581"})
    cuts.add_piece(piece, true);
  cuts.add_piece("d", false);
  const auto found = [&](const std::string& text) { return cuts.find(text, 1); };
  CHECK(found("aba") == 2);
  CHECK(found("a b") == 1);
  CHECK(found("c b") == 3);        // a piece reaches over the blank
  CHECK(found("a  b") == 4);       // blanks become one
  CHECK(found("a \u3000b") == 6);  // and so do others
  CHECK(found("a\u3000bc") == 5);  // they stay with their neighbours
  CHECK(found("a\u0308bc") == 4);  // combining characters may become one with their neighbour
  CHECK(found("bac") == 1);
  CHECK(found("ba\u0308c") == 5);  // here with the letter after the place
  CHECK(found("dba") == 2);        // unknown characters become one token
  CHECK(found("xxaab") == 3);
  CHECK(found("\u8a9e\u65e5\u8a9e") == 6);
  CHECK(cuts.find("\u8a9e\u8a9e\u8a9e", 2) == 3);
  CHECK(cuts.find("aaaa", 3) == 3);
  CHECK(cuts.find("aaaa", 4) == 4);
  CHECK(cuts.find("", 1) == 0);
}

TEST_CASE(
    "a text is cut under the library's own normalizations, unless blanks end words or words are tokens") {
  const std::string path = tokenizer_fixture("sp_plain.model"), model = contents(path);
  // Messages of the same kind are merged, so a few bytes at the end change the model's settings.
  const auto is_cut = [&](const std::string& more) {
    return check_sentence_piece_model(path, model + more).can_be_cut;
  };
  const auto normalizer = [](const std::string& name) {
    const std::string field = "\x0a" + std::string(1, static_cast<char>(name.size())) + name;
    return "\x1a" + std::string(1, static_cast<char>(field.size())) + field;
  };
  CHECK(is_cut(""));
  for (const char* name : {"identity", "nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf"})
    CHECK(is_cut(normalizer(name)));
  CHECK(!is_cut(normalizer("user_defined")));
  CHECK(!is_cut("\x12\x02\x18\x03"));
  CHECK(!is_cut("\x12\x03\xc0\x01\x01"));
}

TEST_CASE("a long text without ASCII blanks has the tokens of its lines") {
  const auto tokenizer = open_tokenizer(tokenizer_fixture("sp_bpe.model"));
  std::string line;
  for (const char* word : {"kalo", "\u65e5da", "miren", "i\u00e9ing", "\u8a9ei", "the"})
    line += std::string(word) + "\u3000";
  line += "\n";
  std::string text;
  while (text.size() < 100'000) text += line;
  // Only the first line gets the blank that the tokenizer puts before a text.
  Tokens two = tokenizer->encode(line + line), one = tokenizer->encode(line);
  const Tokens next(two.begin() + static_cast<std::ptrdiff_t>(one.size()), two.end());
  Tokens expected = one;
  for (size_t at = line.size(); at < text.size(); at += line.size())
    expected.insert(expected.end(), next.begin(), next.end());
  CHECK(tokenizer->encode(text) == expected);
}

TEST_CASE("unknown kinds are refused by their name, exit 78") {
  const TokenizerFolder folder;
  const auto with = [&](const std::string& section, const std::string& key, const Json& value) {
    Json root = small_tokenizer();
    (section.empty() ? root : root[section])[key] = value;
    return problem_of(folder.write("tokenizer.json", root.dump()));
  };
  const std::string path = "78 " + folder.path("tokenizer.json") + ": ";
  CHECK(with("model", "type", "WordPiece") == path + "model.type is WordPiece; supported: BPE");
  CHECK(with("pre_tokenizer", "type", "Metaspace") ==
        path + "pre_tokenizer is Metaspace; supported: Split, Digits and ByteLevel");
  CHECK(with("", "pre_tokenizer", Json()) ==
        path + "pre_tokenizer is without ByteLevel; supported: byte-level BPE");
  CHECK(with("", "normalizer", {{"type", "Lowercase"}}) ==
        path + "normalizer is Lowercase; supported: NFC, or none");
  CHECK(with("model", "byte_fallback", true) ==
        path + "model.byte_fallback is true; supported: byte-level BPE, which needs none");
  CHECK(with("model", "dropout", 0.1) == path + "model.dropout is 0.1; supported: none");
  CHECK(with("model", "end_of_word_suffix", "</w>") ==
        path + "model.end_of_word_suffix is '</w>'; supported: none");
  CHECK(with("", "added_tokens", Json::array({{{"content", "x"}, {"id", 258}, {"single_word", true}}})) ==
        path + "added_tokens[0].single_word is true; supported: false");
  for (const char* pattern : {"\\w+", "[a[b]]", "a{1,2}+", "(?m)a", "\\p{Letter}", "(", "\\1"}) {
    CAPTURE(pattern);
    const Json split = {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
    const std::string found =
        with("", "pre_tokenizer",
             {{"type", "Sequence"}, {"pretokenizers", Json::array({split, {{"type", "ByteLevel"}}})}});
    CHECK_THAT(found, ContainsSubstring("pre_tokenizer.pretokenizers[0].pattern: "));
    CHECK(found.starts_with("78"));
  }
  CHECK_THAT(problem_of(folder.write("x", "IQ== 0\nIg== 1\n")), ContainsSubstring("begins as none of them"));
  Json steps = Json::array();
  for (int i = 0; i < 63; ++i) steps.push_back(split_at("a"));
  CHECK(with("", "pre_tokenizer", pre_tokenizers(steps)).empty());
  for (int i = 0; i < 100'000; ++i) steps.push_back({{"type", "Digits"}});
  CHECK(with("", "pre_tokenizer", pre_tokenizers(steps)) ==
        path + "pre_tokenizer.pretokenizers[64] is step 65 of the pre-tokenizer; supported: at most 64");
}

/// A SentencePiece model with this table in its normalizer and a byte for each unit's label.
std::string model_with_trie(const std::vector<uint32_t>& units, const std::string& texts) {
  const auto bytes = [](uint32_t number) {
    return std::string(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  std::string table = bytes(static_cast<uint32_t>(units.size() * sizeof(uint32_t)));
  for (const uint32_t unit : units) table += bytes(unit);
  table += texts;
  std::string model = contents(tokenizer_fixture("sp_bpe.model"));
  protozero::pbf_writer whole(model);
  protozero::pbf_writer(whole, 3).add_bytes(2, table);
  return model;
}

TEST_CASE("a trie of normalizations leads nowhere but into itself") {
  const TokenizerFolder folder;
  constexpr uint32_t kIsValue = 1U << 31U, kHasLeaf = 1U << 8U, kOffset = 1U << 10U, kCoarse = 1U << 9U;
  const auto problem = [&](const std::vector<uint32_t>& units) {
    return problem_of(folder.write("m.model", model_with_trie(units, std::string("b\0c\0", 4))));
  };
  // Two blocks: the root leads to the second one, if 'a' has a leaf that is the text "c".
  std::vector<uint32_t> units(512, 'z');
  units[0] = 256 * kOffset;
  units[256 ^ 'a'] = 'a' | kHasLeaf | 1 * kOffset;
  units[256 ^ 'a' ^ 1] = kIsValue | 2;
  CHECK(problem(units).empty());
  const auto changed = [&](size_t at, uint32_t unit) {
    std::vector<uint32_t> all = units;
    all[at] = unit;
    return problem(all);
  };
  const std::string refused =
      "65 " + folder.path("m.model") + ": expected a table of normalizations that refers to itself alone";
  // Unit 0 is never compared with a byte, so that its offset is used whatever else it is.
  CHECK_THAT(changed(0, kIsValue | (1U << 20U)), ContainsSubstring(refused));
  CHECK_THAT(changed(0, kIsValue | kCoarse | 3), ContainsSubstring(refused));
  CHECK_THAT(changed(0, 512 * kOffset), ContainsSubstring(refused));
  // A leaf's target is read as a value, whatever it is.
  CHECK_THAT(changed(256 ^ 'a' ^ 1, 0x7FFFFFFFU), ContainsSubstring(refused));
  CHECK_THAT(changed(256 ^ 'a' ^ 1, 'a' | 5 * kOffset), ContainsSubstring(refused));
  CHECK_THAT(changed(256 ^ 'a' ^ 1, kIsValue | 4), ContainsSubstring(refused));
}

TEST_CASE("a SentencePiece model with malformed fields is refused, and unknown fields are skipped") {
  const std::string path = tokenizer_fixture("sp_plain.model"), model = contents(path);
  const SentencePieceModel whole = check_sentence_piece_model(path, model);
  const auto problem = [&](std::string_view more) -> std::string {
    try {
      const SentencePieceModel found = check_sentence_piece_model(path, model + std::string(more));
      const bool is_same =
          found.can_be_cut == whole.can_be_cut && found.removes_blanks == whole.removes_blanks;
      return is_same ? "" : "another model";
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::data);
      const std::string place = path + ": expected ", text = error.what();
      return text.starts_with(place) ? text.substr(place.size()) : text;
    }
  };
  using namespace std::string_view_literals;
  const std::string end = "the end of the file", long_number(10, '\xff');
  CHECK(problem("\x0a") == "a whole field, found " + end);
  CHECK(problem("\x0a\x80") == "a whole field, found " + end);
  CHECK(problem("\x0a\x02x") == "2 bytes of a field, found " + end);
  CHECK(problem("\x0dxyz") == "a whole field, found " + end);
  CHECK(problem("\x09stuvwxy") == "a whole field, found " + end);
  CHECK(problem("\x0a\x03\x15xy") == "a whole field, found " + end);  // of a piece
  // A length with a lower half equal to that of an existing field.
  CHECK(problem("\x0a\x81\x80\x80\x80\x10x") == "4294967297 bytes of a field, found " + end);
  CHECK(problem("\x42\x81\x80\x80\x80\x10x") == "4294967297 bytes of a field, found " + end);
  CHECK(problem("\x0a" + long_number + "\x01") == "a number of at most 64 bits, found a longer one");
  CHECK(problem("\x40" + long_number + "\x01") == "a number of at most 64 bits, found a longer one");
  for (const std::string_view other : {"\x0b"sv, "\x0c"sv, "\x0e"sv, "\x0f"sv, "\0"sv, "\x02\x01x"sv})
    CHECK(problem(other) == "a SentencePiece model, found a field of an unknown type");
  CHECK(problem("\x0a\x05\x15\0\0\xc0\x7f"sv) == "finite scores of pieces, found nan");
  // The library reads the lower half of a field's number, too.
  CHECK(problem("\x8a\x80\x80\x80\x10\x05\x15\0\0\xc0\x7f"sv) == "finite scores of pieces, found nan");
  // Fields with other numbers or types than those that the library reads.
  for (const std::string_view other :
       {"\x40\x07"sv, "\x41stuvwxyz"sv, "\x45wxyz"sv, "\x42\x01x"sv, "\x08\x01"sv, "\x0dwxyz"sv,
        "\x12\x07\x1a\x01\x03\xc2\x01\x01x"sv, "\x1a\x03\x22\x01x"sv})
    CHECK(problem(other).empty());
}

TEST_CASE("damaged files are refused with the place, exit 65") {
  const TokenizerFolder folder;
  const auto with = [&](const std::string& key, const Json& value) {
    Json root = small_tokenizer();
    root["model"][key] = value;
    return problem_of(folder.write("tokenizer.json", root.dump()));
  };
  CHECK(problem_of(folder.write("tokenizer.json", small_tokenizer().dump())).empty());
  const std::string path = "65 " + folder.path("tokenizer.json") + ": ";
  CHECK(with("merges", Json::array({"a b c"})) ==
        path + "model.merges[0]: expected two tokens with a blank between them, found 'a b c'");
  CHECK(with("merges", Json::array({Json::array({"a"})})) ==
        path + "model.merges[0]: expected two texts, found [\"a\"]");
  CHECK(with("merges", Json::array({"a c"})) == path + "expected a token 'ac', of which a merge speaks");
  CHECK(with("merges", 3) == path + "model.merges: expected an array, found 3");
  CHECK(with("vocab", Json({{"a", -1}})) ==
        path + "model.vocab: 'a': expected a token, a number from 0 on, found -1");
  CHECK_THAT(with("vocab", Json({{"a", 2000000000}})),
             ContainsSubstring("expected tokens from 0 to 16777215"));
  CHECK_THAT(with("vocab", Json({{"a", 1}})),
             ContainsSubstring("expected a token for each byte, found none"));
  CHECK_THAT(problem_of(folder.write("tokenizer.json", "{\"model\":")),
             ContainsSubstring(path + "expected JSON"));
  folder.write("vocab.json", contents(tokenizer_fixture("gpt2/vocab.json")));
  CHECK(problem_of(folder.write("merges.txt", "#version: 0.2\na\xC4 b\n")) ==
        "65 " + folder.path("merges.txt") +
            ":2: expected UTF-8, found bytes that are not text; is the file damaged?");
  const std::string model = contents(tokenizer_fixture("sp_bpe.model"));
  for (const size_t size : {size_t{1}, size_t{2}, model.size() / 2, model.size() - 1}) {
    CAPTURE(size);
    CHECK(problem_of(folder.write("m.model", model.substr(0, size)))
              .starts_with("65 " + folder.path("m.model")));
  }
}

}  // namespace
}  // namespace trainer
