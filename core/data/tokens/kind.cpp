// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/kind.h"

#include <fmt/format.h>

#include "core/data/section.h"
#include "core/data/tokens/formats.h"
#include "core/data/tokens/texts.h"

namespace trainer {

void check_tokenizer(const DataSection& section, const OriginOf& origin_of, Diagnostics& diagnostics) {
  const Tokenizer* tokenizer = nullptr;
  try {
    tokenizer = tokenizer_of(section);
  } catch (const Error& problem) {
    if (problem.code() != ExitCode::recipe) throw;
    return diagnostics.error(origin_of("data.tokenizer"), problem.what());
  }
  const std::optional<int64_t>& end = section.tokens.end_of_text;
  if (tokenizer != nullptr && end && *end >= tokenizer->vocabulary()) {
    diagnostics.error(
        origin_of("data.end_of_text"),
        fmt::format("must be below the tokenizer's {} tokens, got {}", tokenizer->vocabulary(), *end));
  }
  if (section.tokens.mask_documents && !end_of_text_of(section)) {
    diagnostics.error(origin_of("data.mask_documents"),
                      tokenizer == nullptr ? "needs the token that ends a document: name it in "
                                             "data.end_of_text, or its tokenizer in data.tokenizer"
                                           : fmt::format("needs the token that ends a document, and "
                                                         "the tokenizer ({}) has none: name one in "
                                                         "data.end_of_text",
                                                         tokenizer->name()));
  }
}

TokenKind::TokenKind() : texts(std::make_shared<Texts>()) {}

void TokenKind::declare(Fields& fields) {
  fields
      .add("tokenizer", &tokenizer,
           "tokenizer for format text: bytes (the default), tokenizer.json, vocab.json beside merges.txt, a "
           "SentencePiece model, or a folder with one of these; for shards, the tokenizer that made them")
      .path_where([](const std::string& text) { return text != kBytesTokenizer; })
      .left_to_samples();
  fields
      .add("end_of_text", &end_of_text,
           "token that ends a document; null: the tokenizer's own, <|endoftext|> or </s>")
      .at_least(0)
      .at_most(2147483646);
  fields.add(
      "mask_documents", &mask_documents,
      "true: attention and positions restart after each end_of_text; false: windows continue across it");
}

void TokenKind::check(const DataSection& section, const Shape& network_shape, const OriginOf& origin_of,
                      Diagnostics& diagnostics) const {
  if (network_shape.size() != 1) {
    diagnostics.error(
        origin_of("model.input"),
        fmt::format("expected [tokens], the length of the windows of data.format {}, got {} numbers",
                    section.format, network_shape.size()));
  }
  if (section.chosen_format().reads_files()) return check_tokenizer(section, origin_of, diagnostics);
  if (mask_documents)
    diagnostics.error(origin_of("data.mask_documents"), "made-up text has no documents; remove it");
}

}  // namespace trainer
