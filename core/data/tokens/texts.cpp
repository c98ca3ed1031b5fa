// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/texts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "core/base/file.h"
#include "core/data/data_error.h"
#include "core/data/foreign_content.h"
#include "core/data/in_parallel.h"
#include "core/data/mapped_file.h"

namespace trainer {
namespace {

/// Tokens as the narrowest numbers, in pieces of this process's own memory or in one piece of a file.
class TokenKeeper {
 public:
  TokenKeeper(const Tokenizer& tokenizer, std::string path, const std::string& folder)
      : path_(std::move(path)), folder_(folder), width_(tokenizer.vocabulary() <= 65536 ? 2 : 4) {
    if (!folder_.empty()) file_ = open_nameless_file(folder_);
  }

  void add(std::span<const int32_t> tokens) {
    for (const int32_t token : tokens) {
      std::array<char, 4> bytes{};
      std::memcpy(bytes.data(), &token, sizeof token);  // little-endian, as all platforms of this program
      waiting_.insert(waiting_.end(), bytes.begin(), bytes.begin() + width_);
    }
    if (waiting_.size() >= kPieceBytes) end_piece();
  }

  std::vector<TokenPiece> finish() {
    if (!waiting_.empty() || pieces_.empty()) end_piece();
    if (folder_.empty()) return std::move(pieces_);
    // Its mapping keeps the file, which has neither a name nor a descriptor.
    const auto file = std::make_shared<const MappedFile>("/proc/self/fd/" + std::to_string(file_.get()));
    return {{.path = path_, .file = file, .bytes = file->bytes(), .width = width_}};
  }

 private:
  static constexpr size_t kPieceBytes = size_t{1} << 20;

  void end_piece() {
    if (folder_.empty()) {
      const auto bytes = std::make_shared<const std::string>(waiting_);
      pieces_.push_back(
          {.path = path_, .text = bytes, .bytes = std::as_bytes(std::span(*bytes)), .width = width_});
    } else if (const int problem = write_all(file_.get(), waiting_); problem != 0) {
      throw io_error(folder_, "write of tokens", problem);
    }
    waiting_.clear();
  }

  std::string path_, folder_;
  int64_t width_;
  FileDescriptor file_;
  std::string waiting_;
  std::vector<TokenPiece> pieces_;
};

/// Throws Error (exit 65) if the file holds something that is no plain text, but would be read as such.
void require_plain_text(const std::string& path, std::string_view text) {
  if (const std::string other = foreign_content(std::as_bytes(std::span(text))); !other.empty())
    fail_in_file(path, 0, "plain text", other);
  if (path.ends_with(".jsonl") || path.ends_with(".ndjson"))
    fail_in_file(path, 0, "plain text", "lines of JSON; jq -r .text FILE.jsonl >FILE.txt writes their texts");
}

struct TokenizedFile {
  std::string path;
  std::vector<TokenPiece> pieces;
  int64_t bytes = 0, malformed = 0;
};

TokenizedFile tokenize_file(const Tokenizer& tokenizer, const std::string& path, const std::string& folder) {
  const MappedFile file(path);
  if (file.bytes().empty()) fail_in_file(path, 0, "a text", "an empty file");
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  require_plain_text(path, text);
  TokenKeeper keeper(tokenizer, path, folder);
  const int64_t malformed =
      tokenizer.make_encoder()->encode(text, [&](std::span<const int32_t> tokens) { keeper.add(tokens); });
  file.require_intact();
  return {.path = path,
          .pieces = keeper.finish(),
          .bytes = static_cast<int64_t>(text.size()),
          .malformed = malformed};
}

/// Each file by the next free thread. Of several problems the first file's is thrown.
std::vector<TokenizedFile> tokenize_each(const Tokenizer& tokenizer, const std::vector<std::string>& paths,
                                         const std::string& folder, int64_t threads) {
  std::vector<TokenizedFile> files(paths.size());
  in_parallel(paths.size(), threads,
              [&](size_t i) { files[i] = tokenize_file(tokenizer, paths[i], folder); });
  return files;
}

std::vector<TokenizedFile> map_each(const std::vector<std::string>& paths) {
  std::vector<TokenizedFile> files;
  for (const std::string& path : paths) {
    const TokenPiece piece = open_text_piece(path);
    require_plain_text(path, {reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size()});
    files.push_back({.path = path, .pieces = {piece}, .bytes = piece.size()});
  }
  return files;
}

}  // namespace

TokenizedText tokenize_files(const Tokenizer& tokenizer, const std::vector<std::string>& paths,
                             std::optional<int32_t> end_of_text, const std::string& folder, int64_t threads) {
  const bool are_bytes = tokenizer.name() == kBytesTokenizer;
  std::vector<TokenPiece> pieces;
  TokenizedText text{.stream = TokenStream({})};
  for (TokenizedFile& file : are_bytes ? map_each(paths) : tokenize_each(tokenizer, paths, folder, threads)) {
    if (!pieces.empty() && end_of_text) {
      TokenKeeper end(tokenizer, pieces.back().path, "");
      end.add(std::array{*end_of_text});
      pieces.push_back(end.finish().front());
    }
    text.bytes += file.bytes;
    if (text.malformed == 0 && file.malformed > 0) text.first_malformed = file.path;
    text.malformed += file.malformed;
    std::ranges::move(file.pieces, std::back_inserter(pieces));
  }
  text.stream = TokenStream(std::move(pieces));
  return text;
}

const Tokenizer& Texts::tokenizer(const std::string& path) {
  std::unique_ptr<Tokenizer>& known = tokenizers_[path];
  if (!known) known = path == kBytesTokenizer ? byte_tokenizer() : open_tokenizer(path);
  return *known;
}

const TokenizedText& Texts::tokenize(const std::string& tokenizer_path, const std::vector<std::string>& paths,
                                     std::optional<int32_t> end_of_text, int64_t threads) {
  std::vector<std::string> key = paths;
  key.push_back(tokenizer_path);
  key.push_back(end_of_text ? std::to_string(*end_of_text) : "");
  const auto known = texts_.find(key);
  if (known != texts_.end()) return known->second;
  return texts_.emplace(key, tokenize_files(tokenizer(tokenizer_path), paths, end_of_text, folder_, threads))
      .first->second;
}

}  // namespace trainer
