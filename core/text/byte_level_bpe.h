// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/text/added_tokens.h"
#include "core/text/pre_tokenizer.h"
#include "core/text/tokenizer.h"

namespace trainer {

/// The contents of a byte-level BPE's files. Texts of tokens and merges are as the files write them, with a
/// character for each byte (core/text/byte_level.h).
struct ByteLevelBpeParts {
  std::string path;  ///< for messages
  std::vector<std::pair<std::string, int32_t>> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;  ///< in the order of their ranks
  std::vector<AddedToken> added;                            ///< texts as they are
  PreTokenizer pre_tokenizer;
  bool composes = false;        ///< the text is brought into normalization form C first
  bool ignores_merges = false;  ///< a word that is a token is not merged from its bytes
  uint64_t checksum = 0;
};

/// Throws Error: exit 65 if the parts contradict one another, 78 if a byte has no token.
std::unique_ptr<Tokenizer> byte_level_bpe(ByteLevelBpeParts parts);

/// GPT-2's words: letters, digits and other characters, each with a blank before, and white space.
extern const char* const kGpt2Pattern;

}  // namespace trainer
