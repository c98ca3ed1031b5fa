// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/texts.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <string_view>
#include <thread>
#include <utility>

#include "core/data/data_error.h"
#include "core/data/mapped_file.h"

namespace trainer {
namespace {

/// A piece in this process's own memory.
template <class Number>
TokenPiece resident_piece(const std::string& path, const std::vector<int32_t>& tokens) {
  const auto numbers = std::make_shared<const std::vector<Number>>(tokens.begin(), tokens.end());
  return {.path = path,
          .memory = numbers,
          .bytes = std::as_bytes(std::span(*numbers)),
          .width = sizeof(Number),
          .is_resident = true};
}

TokenPiece narrowest_piece(const Tokenizer& tokenizer, const std::string& path,
                           const std::vector<int32_t>& tokens) {
  return tokenizer.vocabulary() <= 65536 ? resident_piece<uint16_t>(path, tokens)
                                         : resident_piece<uint32_t>(path, tokens);
}

struct TokenizedFile {
  TokenPiece piece;
  int64_t bytes = 0, malformed = 0;
};

TokenizedFile tokenize_file(const Tokenizer& tokenizer, const std::string& path) {
  const MappedFile file(path);
  if (file.bytes().empty()) fail_in_file(path, 0, "a text", "an empty file");
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  std::vector<int32_t> tokens;
  const int64_t malformed = tokenizer.make_encoder()->encode(text, tokens);
  return {.piece = narrowest_piece(tokenizer, path, tokens),
          .bytes = static_cast<int64_t>(text.size()),
          .malformed = malformed};
}

/// Each file by the next free thread. Of several problems the first file's is thrown.
std::vector<TokenizedFile> tokenize_each(const Tokenizer& tokenizer, const std::vector<std::string>& paths) {
  std::vector<TokenizedFile> files(paths.size());
  std::vector<std::exception_ptr> problems(paths.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < paths.size(); i = next++) {
      try {
        files[i] = tokenize_file(tokenizer, paths[i]);
      } catch (...) {
        problems[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    const size_t threads = std::min<size_t>(paths.size(), std::max(1U, std::thread::hardware_concurrency()));
    for (size_t i = 1; i < threads; ++i) others.emplace_back(work);
    work();
  }
  for (const std::exception_ptr& problem : problems) {
    if (problem) std::rethrow_exception(problem);
  }
  return files;
}

std::vector<TokenizedFile> map_each(const std::vector<std::string>& paths) {
  std::vector<TokenizedFile> files;
  for (const std::string& path : paths) {
    const TokenPiece piece = open_text_piece(path);
    files.push_back({.piece = piece, .bytes = piece.size()});
  }
  return files;
}

}  // namespace

TokenizedText tokenize_files(const Tokenizer& tokenizer, const std::vector<std::string>& paths,
                             std::optional<int32_t> end_of_text) {
  const bool are_bytes = tokenizer.name() == kBytesTokenizer;
  std::vector<TokenPiece> pieces;
  TokenizedText text{.stream = TokenStream({})};
  for (TokenizedFile& file : are_bytes ? map_each(paths) : tokenize_each(tokenizer, paths)) {
    if (!pieces.empty() && end_of_text)
      pieces.push_back(narrowest_piece(tokenizer, pieces.back().path, {*end_of_text}));
    text.bytes += file.bytes;
    if (text.malformed == 0 && file.malformed > 0) text.first_malformed = file.piece.path;
    text.malformed += file.malformed;
    pieces.push_back(std::move(file.piece));
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
                                     std::optional<int32_t> end_of_text) {
  std::vector<std::string> key = paths;
  key.push_back(tokenizer_path);
  key.push_back(end_of_text ? std::to_string(*end_of_text) : "");
  const auto known = texts_.find(key);
  if (known != texts_.end()) return known->second;
  return texts_.emplace(key, tokenize_files(tokenizer(tokenizer_path), paths, end_of_text)).first->second;
}

}  // namespace trainer
