// SPDX-License-Identifier: Apache-2.0
#include "core/text/tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <stdexcept>

#include "core/base/checksum.h"
#include "core/base/directory.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/text/tokenizer_files.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

class ByteTokenizer final : public Tokenizer {
 public:
  std::string_view name() const override { return "bytes"; }
  int64_t vocabulary() const override { return 256; }
  std::optional<int32_t> end_of_text() const override { return std::nullopt; }
  uint64_t checksum() const override { return 0; }
  std::unique_ptr<TextEncoder> make_encoder() const override { return std::make_unique<Encoder>(); }
  std::string decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) {
      if (token < 0 || token > 255) throw std::out_of_range("a token that is not a byte");
      text.push_back(static_cast<char>(token));
    }
    return text;
  }

 private:
  struct Encoder final : TextEncoder {
    int64_t encode(std::string_view text, const TokensSink& sink) override {
      constexpr size_t kAtOnce = 4096;
      std::vector<int32_t> tokens;
      for (; !text.empty(); text.remove_prefix(tokens.size())) {
        tokens.clear();
        for (const char c : text.substr(0, kAtOnce)) tokens.push_back(static_cast<unsigned char>(c));
        sink(tokens);
      }
      return 0;
    }
  };
};

/// GPT-2's pairs, by either name.
struct FilePair {
  const char *vocabulary, *merges;
};
constexpr std::array<FilePair, 2> kPairs = {{{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}}};

std::string contents_of(const fs::path& path) {
  std::optional<std::string> text = fs::is_directory(path) ? std::nullopt : read_text(path);
  if (!text)
    throw Error(ExitCode::recipe,
                fmt::format("{}: there is no such file of a tokenizer", one_line(path.string())));
  return std::move(*text);
}

uint64_t checksum_of(std::initializer_list<std::string_view> contents) {
  Checksum sum;
  for (const std::string_view text : contents) sum.add(std::as_bytes(std::span(text)));
  return sum.value();
}

std::unique_ptr<Tokenizer> open_pair(const fs::path& vocabulary, const fs::path& merges) {
  const std::string tokens = contents_of(vocabulary), pairs = contents_of(merges);
  ByteLevelBpeParts parts =
      read_gpt2_files(one_line(vocabulary.string()), tokens, one_line(merges.string()), pairs);
  parts.checksum = checksum_of({tokens, pairs});
  return byte_level_bpe(std::move(parts));
}

std::unique_ptr<Tokenizer> open_file(const fs::path& path) {
  const std::string text = contents_of(path);
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string::npos && text[begin] == '{') {
    ByteLevelBpeParts parts = read_tokenizer_json(one_line(path.string()), text);
    parts.checksum = checksum_of({text});
    return byte_level_bpe(std::move(parts));
  }
  if (text.starts_with('\n'))
    return sentence_piece(one_line(path.string()), text);  // the first field of its message
  throw Error(
      ExitCode::recipe,
      fmt::format("{}: expected tokenizer.json, vocab.json with merges.txt, or a SentencePiece model; "
                  "found a file that begins as none of them",
                  one_line(path.string())));
}

/// The file of a folder that determines its tokenizer.
fs::path main_file(const fs::path& folder) {
  std::vector<fs::path> models;
  if (fs::exists(folder / "tokenizer.json")) return folder / "tokenizer.json";
  for (const auto& [vocabulary, merges] : kPairs) {
    if (fs::exists(folder / vocabulary) && fs::exists(folder / merges)) return folder / vocabulary;
  }
  for (const DirectoryEntry& entry : directory_entries(folder)) {
    if (entry.path().extension() == ".model") models.push_back(entry.path());
  }
  if (models.size() == 1) return models.front();
  throw Error(
      ExitCode::recipe,
      fmt::format("{}: expected tokenizer.json, vocab.json with merges.txt, or one "
                  "SentencePiece model (*.model); found {} of the last and none of the others; name a file",
                  one_line(folder.string()), models.size()));
}

}  // namespace

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  make_encoder()->append(text, tokens);
  return tokens;
}

int64_t TextEncoder::append(std::string_view text, std::vector<int32_t>& tokens) {
  return encode(
      text, [&](std::span<const int32_t> more) { tokens.insert(tokens.end(), more.begin(), more.end()); });
}

std::unique_ptr<Tokenizer> byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path) {
  const std::vector<std::string> files = tokenizer_files(path);
  return files.size() == 2 ? open_pair(files[0], files[1]) : open_file(files[0]);
}

std::vector<std::string> tokenizer_files(const std::string& path) {
  const fs::path file = fs::is_directory(path) ? main_file(path) : fs::path(path);
  for (const auto& [vocabulary, merges] : kPairs) {
    if (file.filename() == vocabulary || file.filename() == merges)
      return {(file.parent_path() / vocabulary).string(), (file.parent_path() / merges).string()};
  }
  return {file.string()};
}

}  // namespace trainer
