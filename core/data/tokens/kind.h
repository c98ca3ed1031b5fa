// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/data/format.h"

namespace trainer {

class Texts;

/// Rows that are windows of tokens: what made the tokens, and where documents end.
class TokenKind final : public RowKind {
 public:
  std::optional<FilePath> tokenizer;  ///< or "bytes", which is what a text has without it
  std::optional<int64_t> end_of_text;
  bool mask_documents = false;   ///< tokens of a stream do not see those of other documents
  std::shared_ptr<Texts> texts;  ///< what has been tokenized already; not a key

  TokenKind();
  void declare(Fields& fields) override;
  std::string name() const override { return "tokens"; }

  void check(const DataSection& section, const Shape& network_shape, const OriginOf& origin_of,
             Diagnostics& diagnostics) const override;
};

}  // namespace trainer
