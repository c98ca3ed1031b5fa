// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "core/base/checksum.h"
#include "core/base/error.h"
#include "core/base/memory_reserve.h"
#include "core/text/sentence_piece_cuts.h"
#include "core/text/sentence_piece_model.h"
#include "core/text/tokenizer_files.h"
#include "core/text/utf8.h"

namespace trainer {
namespace {

using Processor = sentencepiece::SentencePieceProcessor;

/// The library needs some hundred bytes for each byte of a text, and it adds up a text's scores in f32: after
/// a million bytes those of two pieces no longer differ. So texts are split into parts of at least this size.
constexpr size_t kCutBytes = size_t{1} << 10;

/// The library crashes if it gets no memory, so some is reserved: for each byte of a text or a model, and
/// for any call. The outcome of a call that needed it is not used.
constexpr size_t kForByteOfText = 512, kForByteOfModel = 64, kForCall = size_t{1} << 16;

template <class Call>
auto with_reserve(size_t bytes, const Call& call) {
  const MemoryReserve reserve(kForCall + bytes);
  const sentencepiece::util::Status status = call();
  reserve.require_untouched();
  return status;
}

void load(const std::string& path, const std::string& model, Processor& processor) {
  const auto status =
      with_reserve(kForByteOfModel * model.size(), [&] { return processor.LoadFromSerializedProto(model); });
  if (!status.ok())
    throw Error(ExitCode::data,
                fmt::format("{}: expected a SentencePiece model: {}", path, status.ToString()));
}

/// The model with normalizer_spec.add_dummy_prefix as given. Messages of the same kind are merged when they
/// follow one another.
std::string with_prefix(std::string_view model, bool adds) {
  return std::string(model) + "\x1a\x02\x18" + (adds ? '\x01' : '\0');
}

class SentencePiece final : public Tokenizer {
 public:
  SentencePiece(const std::string& path, std::string_view model)
      : model_(check_sentence_piece_model(path, model)),
        checksum_(trainer::checksum(std::as_bytes(std::span(model)))) {
    load(path, std::string(model), whole_);
    if (!model_.can_be_cut) return;
    // A later part must not get a blank before it. But if the library removes blanks at the borders of
    // texts, the blank that it adds replaces the one that the part begins with.
    load(path, with_prefix(model, model_.removes_blanks), behind_blank_);
    load(path, with_prefix(model, false), behind_letter_);
    for (int token = 0; token < whole_.GetPieceSize(); ++token)
      cuts_.add_piece(whole_.IdToPiece(token), !whole_.IsUnused(token));
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
    const std::vector<int> numbers(tokens.begin(), tokens.end());
    const auto status =
        with_reserve(kForByteOfText * numbers.size(), [&] { return whole_.Decode(numbers, &text); });
    if (!status.ok()) throw std::runtime_error(status.ToString());
    return text;
  }

  void encode_valid(std::string_view text, const TokensSink& sink) const {
    const Processor* processor = &whole_;
    while (!text.empty()) {
      const size_t size = model_.can_be_cut ? cuts_.find(text, kCutBytes) : text.size();
      std::vector<int> part;
      const auto status =
          with_reserve(kForByteOfText * size, [&] { return processor->Encode(text.substr(0, size), &part); });
      if (!status.ok()) throw std::runtime_error(status.ToString());
      sink(part);
      text.remove_prefix(size);
      processor = text.starts_with(' ') ? &behind_blank_ : &behind_letter_;
    }
  }

 private:
  SentencePieceModel model_;
  uint64_t checksum_;
  Processor whole_, behind_blank_, behind_letter_;  ///< of a text's beginning, and of the parts after it
  SentencePieceCuts cuts_;
};

class SentencePieceEncoder final : public TextEncoder {
 public:
  explicit SentencePieceEncoder(const SentencePiece& tokenizer) : tokenizer_(tokenizer) {}
  int64_t encode(std::string_view text, const TokensSink& sink) override {
    std::string fixed;
    const int64_t malformed = replace_malformed(text, fixed);
    tokenizer_.encode_valid(malformed > 0 ? fixed : text, sink);
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
