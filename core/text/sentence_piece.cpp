// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <stdexcept>

#include "core/base/checksum.h"
#include "core/base/error.h"
#include "core/text/sentence_piece_model.h"
#include "core/text/tokenizer_files.h"
#include "core/text/utf8.h"

namespace trainer {
namespace {

using Processor = sentencepiece::SentencePieceProcessor;

/// The library needs some hundred bytes for each byte of a text, so long ones are cut.
constexpr size_t kCutBytes = size_t{1} << 20;

void load(const std::string& path, const std::string& model, Processor& processor) {
  const sentencepiece::util::Status status = processor.LoadFromSerializedProto(model);
  if (!status.ok())
    throw Error(ExitCode::data,
                fmt::format("{}: expected a SentencePiece model: {}", path, status.ToString()));
}

/// Where the first part of a text ends: before a blank between a character that is none and an ASCII letter,
/// over which neither pieces nor normalizations reach.
size_t cut_of(std::string_view text) {
  for (size_t at = kCutBytes; at + 1 < text.size(); ++at) {
    const auto before = static_cast<unsigned char>(text[at - 1]),
               behind = static_cast<unsigned char>(text[at + 1]);
    if (text[at] == ' ' && before < 0x80 && std::isalnum(before) != 0 && behind < 0x80 &&
        std::isalnum(behind) != 0)
      return at;
  }
  return text.size();
}

class SentencePiece final : public Tokenizer {
 public:
  SentencePiece(const std::string& path, std::string_view model)
      : model_(check_sentence_piece_model(path, model)),
        checksum_(trainer::checksum(std::as_bytes(std::span(model)))) {
    load(path, std::string(model), whole_);
    // A later part begins with the blank before which the text was cut. It must not get a second one, but
    // where the library removes blanks at the borders of texts, the blank that it adds to each is the same.
    // Messages of the same kind are merged when they follow one another: normalizer_spec.add_dummy_prefix.
    load(path, std::string(model) + "\x1a\x02\x18" + (model_.removes_blanks ? '\x01' : '\0'), rest_);
  }

  std::string_view name() const override { return "SentencePiece"; }
  int64_t vocabulary() const override { return whole_.GetPieceSize(); }
  uint64_t checksum() const override { return checksum_; }
  std::optional<int32_t> end_of_text() const override {
    const int token = whole_.eos_id();
    return token < 0 ? std::nullopt : std::optional<int32_t>(token);
  }
  std::unique_ptr<TextEncoder> make_encoder() const override;

  std::string decode(std::span<const int32_t> tokens) const override {
    for (const int32_t token : tokens) {
      if (token < 0 || token >= vocabulary()) throw std::out_of_range("a token beyond the vocabulary");
    }
    std::string text;
    const auto status = whole_.Decode(std::vector<int>(tokens.begin(), tokens.end()), &text);
    if (!status.ok()) throw std::runtime_error(status.ToString());
    return text;
  }

  void encode_valid(std::string_view text, std::vector<int32_t>& tokens) const {
    const Processor* processor = &whole_;
    while (!text.empty()) {
      const size_t size = text.size() <= kCutBytes || model_.blanks_end_words ? text.size() : cut_of(text);
      std::vector<int> part;
      const auto status = processor->Encode(text.substr(0, size), &part);
      if (!status.ok()) throw std::runtime_error(status.ToString());
      tokens.insert(tokens.end(), part.begin(), part.end());
      text.remove_prefix(size);
      processor = &rest_;
    }
  }

 private:
  SentencePieceModel model_;
  uint64_t checksum_;
  Processor whole_, rest_;  ///< of a text's beginning, and of what follows
};

class SentencePieceEncoder final : public TextEncoder {
 public:
  explicit SentencePieceEncoder(const SentencePiece& tokenizer) : tokenizer_(tokenizer) {}
  int64_t encode(std::string_view text, std::vector<int32_t>& tokens) override {
    std::string fixed;
    const int64_t malformed = replace_malformed(text, fixed);
    tokenizer_.encode_valid(malformed > 0 ? fixed : text, tokens);
    return malformed;
  }

 private:
  const SentencePiece& tokenizer_;
};

std::unique_ptr<TextEncoder> SentencePiece::make_encoder() const {
  return std::make_unique<SentencePieceEncoder>(*this);
}

}  // namespace

std::unique_ptr<Tokenizer> sentence_piece(const std::string& path, std::string_view model) {
  return std::make_unique<SentencePiece>(path, model);
}

}  // namespace trainer
