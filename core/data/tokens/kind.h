// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/data/format.h"

namespace trainer {

class Texts;

/// Rows that are windows of tokens, with the tokenizer and the end of documents.
class TokenKind final : public RowKind {
 public:
  std::optional<FilePath> tokenizer;  ///< or "bytes", the default for text
  std::optional<int64_t> end_of_text;
  bool mask_documents = false;   ///< tokens do not attend to those of other documents
  std::shared_ptr<Texts> texts;  ///< texts tokenized so far; not a key

  TokenKind();
  void declare(Fields& fields) override;
  std::string name() const override { return "tokens"; }

  void check(const DataSection& section, const Shape& network_shape, const OriginOf& origin_of,
             Diagnostics& diagnostics) const override;
};

}  // namespace trainer
