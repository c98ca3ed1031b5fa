// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/text/byte_level_bpe.h"
#include "core/text/tokenizer.h"

namespace trainer {

// One reader for each kind of file; `open_tokenizer` distinguishes them. `path` is for messages. All throw
// Error: exit 65 if the contents are damaged, 78 if they need an unsupported feature, by its name.

/// Hugging Face's tokenizer.json (https://huggingface.co/docs/tokenizers): normalizer NFC or none;
/// pre-tokenizers Split, Digits and, as the last one, ByteLevel; model BPE; added tokens. Truncation, padding
/// and tokens around a text (post_processor) are not applied.
ByteLevelBpeParts read_tokenizer_json(const std::string& path, std::string_view text);

/// GPT-2's pair of files.
ByteLevelBpeParts read_gpt2_files(const std::string& vocabulary_path, std::string_view vocabulary,
                                  const std::string& merges_path, std::string_view merges);

/// A model of libsentencepiece.
std::unique_ptr<Tokenizer> sentence_piece(const std::string& path, std::string_view model);

/// "LEFT RIGHT", as files write a merge; throws at anything else, naming `place`.
std::pair<std::string, std::string> split_merge(const std::string& place, std::string_view text);

}  // namespace trainer
