// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace trainer {

/// The properties of a SentencePiece model that the project itself uses.
struct SentencePieceModel {
  bool removes_blanks = true;  ///< runs of white space become one blank, at a text's borders none
  /// Whether parts of a text have the tokens of the whole, given the right places to cut: blanks begin words,
  /// pieces are not whole words, and the normalization is one of the library's own.
  bool can_be_cut = true;
};

/// Reads the message ModelProto of libsentencepiece (src/sentencepiece_model.proto) as far as the library
/// trusts it: scores are finite, and the table of normalizations holds no reference beyond itself. Throws
/// Error (exit 65), with `path`, otherwise.
SentencePieceModel check_sentence_piece_model(const std::string& path, std::string_view model);

}  // namespace trainer
