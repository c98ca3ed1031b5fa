// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/data/row_reader.h"
#include "core/data/source.h"
#include "core/data/tokens/stream.h"
#include "core/text/tokenizer.h"

namespace trainer {

/// A part of a stream as samples: windows of `length` tokens, each with the token after each as its label.
struct WindowRequest {
  int64_t begin = 0, end = 0;  ///< of the stream
  int64_t length = 0;
  int64_t vocabulary = 0;  ///< tokens are below it
  /// Whether the windows of each epoch begin at a place of their own, drawn by the seed. Otherwise the first
  /// begins at the first token. Windows do not overlap; remaining tokens are left out.
  bool shifts = false;
  uint64_t seed = 0;                                  ///< of the run
  std::optional<int32_t> end_of_text = std::nullopt;  ///< begins a document after it; none: all is one
  std::string tokenizer;                              ///< for the fingerprint, or empty
};

/// Reads the tokens of one window and the next one.
using WindowReader = std::function<void(const RowPlace& place, std::span<int32_t> tokens)>;

/// Rows with the inputs `tokens` (length) and `labels` (length), which are windows, and `document_start`
/// (length): for each token the position in the window at which its document begins, after the last
/// `end_of_text`.
std::unique_ptr<RowReader> window_rows(WindowReader read, int64_t length, std::optional<int32_t> end_of_text,
                                       const BatchInputs& inputs);

/// Windows of a part, how many there are. Throws Error (exit 65) if there is not one.
int64_t window_count(const TokenStream& stream, const WindowRequest& request);

/// Bytes of text for all labels of the windows, in evaluation's order.
int64_t label_bytes(const TokenStream& stream, const WindowRequest& request, const Tokenizer& tokenizer);

/// The windows as samples.
std::unique_ptr<DataSource> token_windows(TokenStream stream, const WindowRequest& request);

}  // namespace trainer
