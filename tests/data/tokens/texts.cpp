// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/texts.h"

#include <filesystem>
#include <string>
#include <tuple>
#include <vector>
#include "tests/catch.h"

#include "core/data/section.h"
#include "core/data/tokens/formats.h"
#include "core/data/tokens/shards.h"
#include "core/data/tokens/windows.h"
#include "tests/data/samples.h"
#include "tests/sanitized.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Tokens = std::vector<int32_t>;

std::string fixture(const std::string& name) {
  return TRAINER_SOURCE_DIR "/tests/fixtures/tokenizers/" + name;
}

Tokens all_of(const TokenStream& stream) {
  Tokens tokens(static_cast<size_t>(stream.size()));
  stream.read(0, int64_t{1} << 31, tokens);
  return tokens;
}

TEST_CASE("files become tokens in their order, with the end of a text between them") {
  const TemporaryFolder folder;
  const auto tokenizer = open_tokenizer(fixture("llama3.json"));
  std::vector<std::string> paths;
  Tokens expected;
  for (int i = 0; i < 7; ++i) {
    const std::string text = "kalo the " + std::to_string(i * 1000) + "\n";
    paths.push_back(folder.path("t" + std::to_string(i)));
    write_file(paths.back(), text);
    if (i > 0) expected.push_back(*tokenizer->end_of_text());
    const Tokens tokens = tokenizer->encode(text);
    expected.insert(expected.end(), tokens.begin(), tokens.end());
  }
  const TokenizedText found = tokenize_files(*tokenizer, paths, tokenizer->end_of_text(), "", 3);
  CHECK(all_of(found.stream) == expected);
  CHECK(found.stream.resident_bytes() == 2 * static_cast<int64_t>(expected.size()));
  CHECK(found.bytes == 6 * 14 + 11);
  CHECK(found.malformed == 0);
  const TokenizedText joined = tokenize_files(*tokenizer, paths, std::nullopt);
  CHECK(joined.stream.size() == static_cast<int64_t>(expected.size()) - 6);
  write_file(paths[3], "a\xff\xff");
  write_file(paths[4], "\xff");
  const TokenizedText malformed = tokenize_files(*tokenizer, paths, std::nullopt, "", 9);
  CHECK(malformed.malformed == 3);
  CHECK(malformed.first_malformed == paths[3]);
  write_file(paths[5], "");
  CHECK(data_error([&] { tokenize_files(*tokenizer, paths, std::nullopt); }) ==
        paths[5] + ": offset 0: expected a text, found an empty file");
}

TEST_CASE("tokens kept in a folder are those kept in memory, and leave nothing behind") {
  const TemporaryFolder folder, beside;
  const std::string name = GENERATE("llama3.json", "gpt2", "sp_bpe.model", "sp_plain.model");
  const auto tokenizer = open_tokenizer(fixture(name));
  std::string text;
  while (text.size() < few_or_all<size_t>(1'500'000, 3'000'000))
    text += "kalo the " + std::to_string(text.size()) + "\u3000miren\n";
  write_file(folder.path("a"), text);
  write_file(folder.path("b"), "the\xff");
  const std::vector<std::string> paths = {folder.path("a"), folder.path("b")};
  const TokenizedText resident = tokenize_files(*tokenizer, paths, 7),
                      filed = tokenize_files(*tokenizer, paths, 7, beside.path(""), 2);
  Tokens expected = tokenizer->encode(text);
  expected.push_back(7);
  tokenizer->make_encoder()->append("the\xff", expected);
  REQUIRE(2 * expected.size() > size_t{1} << 20);  // more than is written at once
  CHECK(all_of(resident.stream) == expected);
  CHECK(all_of(filed.stream) == expected);
  CHECK(resident.stream.resident_bytes() == 2 * static_cast<int64_t>(expected.size()));
  CHECK(filed.stream.resident_bytes() == 2);  // the token between the files
  CHECK(filed.malformed == 1);
  CHECK(filed.first_malformed == paths[1]);
  CHECK(std::filesystem::is_empty(beside.path("")));
}

TEST_CASE("bytes of text stay in their files") {
  const TemporaryFolder folder;
  write_file(folder.path("a"), "ab");
  write_file(folder.path("b"), "c");
  const auto bytes = byte_tokenizer();
  const TokenizedText found = tokenize_files(*bytes, {folder.path("a"), folder.path("b")}, 10);
  CHECK(all_of(found.stream) == Tokens{'a', 'b', '\n', 'c'});
  CHECK(found.stream.resident_bytes() == 2);  // of the end between them
}

TEST_CASE("a file is tokenized once, whoever asks") {
  const TemporaryFolder folder;
  const std::string path = folder.path("t");
  write_file(path, "kalo");
  Texts texts;
  const TokenizedText& first = texts.tokenize(fixture("gpt2"), {path}, std::nullopt);
  write_file(path, "");
  CHECK(&texts.tokenize(fixture("gpt2"), {path}, std::nullopt) == &first);
  CHECK(&texts.tokenizer(fixture("gpt2")) == &texts.tokenizer(fixture("gpt2")));
}

TEST_CASE("shards that are written read back as the same tokens") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 5000; ++i) text.push_back(static_cast<char>(i % 251));
  write_file(folder.path("text"), text);
  const TokenStream stream = TokenStream({open_text_piece(folder.path("text"))});
  for (const int64_t vocabulary : {256, 65536, 65537}) {
    std::vector<std::string> paths;
    for (const auto& [begin, end] : {std::pair{0, 1}, {1, 4000}, {4000, 5000}}) {
      std::string bytes;
      write_shard(stream, begin, end, vocabulary, [&](std::span<const std::byte> piece) {
        bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      });
      CHECK(bytes.size() == 1024 + static_cast<size_t>((end - begin) * (vocabulary > 65536 ? 4 : 2)));
      paths.push_back(folder.path("s" + std::to_string(paths.size())));
      write_file(paths.back(), bytes);
    }
    CHECK(all_of(open_token_shards(paths, 2)) == all_of(stream));
  }
  CHECK_FALSE(
      data_error([&] { write_shard(stream, 0, 5000, 250, [](std::span<const std::byte>) {}); }).empty());
}

TEST_CASE("text that has been tokenized is told by its tokenizer, shards of it are not") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 20; ++i) text += "kalo miren ";
  write_file(folder.path("t"), text);
  DataSection section;
  section.format = "text";
  section.train = folder.path("t");
  section.val_fraction = 0.5;
  const SourceRequest request{.network_shape = {4}, .network_classes = 500};
  const Fingerprint bytes = open_source(section, request)->fingerprint();
  section.tokens.tokenizer = FilePath(fixture("llama3.json"));
  const Fingerprint llama = open_source(section, request)->fingerprint();
  CHECK(bytes.count(fingerprint_name::kTokenizer) == 0);
  CHECK(llama.count(fingerprint_name::kTokenizer) == 1);
  const SourceInfo info = *peek_source(section, request);
  CHECK(info.least_classes == 424);
  CHECK(info.is_shared);
  CHECK_THAT(info.summary, Catch::Matchers::ContainsSubstring("220 B became "));
  SourceRequest of_val = request;
  of_val.split = Split::val;
  of_val.counts_bytes = true;
  const SourceInfo val = *peek_source(section, of_val);
  CHECK(val.summary.empty());
  // The labels are the tokens of the validation's last windows, except for the first.
  const SplitTokens tokens = open_tokens(section, Split::val);
  Tokens labels(static_cast<size_t>(val.size * 4));
  tokens.stream.read(tokens.begin + 1, 500, labels);
  CHECK(val.label_bytes == static_cast<int64_t>(tokens.tokenizer->decode(labels).size()));
}

TEST_CASE("what is no plain text is refused with what to do, as tokens and as bytes") {
  const TemporaryFolder folder;
  const auto bytes = byte_tokenizer();
  using namespace std::string_literals;
  const std::vector<std::tuple<std::string, std::string, std::string>> cases = {
      {"a.txt", gzip("text"), "gunzip"},           {"b.txt.zst", "\x28\xb5\x2f\xfd and more"s, "unzstd"},
      {"c.xz", "\xfd\x37zXZ\0 and more"s, "unxz"}, {"d.bz2", "BZh91AY&SY and more"s, "bunzip2"},
      {"e.docx", "PK\x03\x04 and more"s, "unzip"}, {"f.parquet", "PAR1 and more"s, "a Parquet file"},
      {"g.pdf", "%PDF-1.7"s, "pdftotext"},         {"h.jsonl", "{\"text\": \"a\"}\n"s, "jq -r .text"}};
  for (const auto& [name, contents, remedy] : cases) {
    INFO(name);
    const std::string path = folder.path(name);
    write_file(path, contents);
    const std::string problem = data_error([&] { tokenize_files(*bytes, {path}, std::nullopt); });
    CHECK_THAT(problem, ContainsSubstring("expected plain text, found ") && ContainsSubstring(remedy));
  }
  for (const std::string text : {"PK", "BZh for bees", "%PD", "{\"text\": 1}"}) {
    write_file(folder.path("text.txt"), text);
    CHECK(tokenize_files(*bytes, {folder.path("text.txt")}, std::nullopt).bytes ==
          static_cast<int64_t>(text.size()));
  }
}

}  // namespace
}  // namespace trainer
