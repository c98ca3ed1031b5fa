// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/data/formats.h"
#include "core/data/tokens/stream.h"
#include "core/text/tokenizer.h"

namespace trainer {

/// The tokenizer of the section's tokens, owned by the section; null if the shards do not name one. Throws as
/// open_tokenizer does.
const Tokenizer* tokenizer_of(const DataSection& section);
/// Whether the bytes of the section's text can be counted: made-up tokens count as one each.
bool knows_bytes(const DataSection& section);
/// Reports a tokenizer that cannot be read, or lacks the token that keys of the section need.
void check_tokenizer(const DataSection& section, const OriginOf& origin_of, Diagnostics& diagnostics);

/// The token that ends a document, from the section, otherwise from the tokenizer.
std::optional<int32_t> end_of_text_of(const DataSection& section);

/// The part [begin, end) of the stream that a split has: with data.val_fraction, validation has its last
/// tokens.
std::pair<int64_t, int64_t> part_of(const TokenStream& stream, const DataSection& section, Split split);

/// All tokens of a split, for commands that do not train.
struct SplitTokens {
  TokenStream stream;
  int64_t begin = 0, end = 0;            ///< of the stream
  const Tokenizer* tokenizer = nullptr;  ///< of the section, which keeps it; null if it is unknown
  std::string warning;                   ///< or empty
};

/// The files must be there; `threads` may read them. Throws Error as opening a source does.
SplitTokens open_tokens(const DataSection& section, Split split, int64_t threads = 1);

}  // namespace trainer
