// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/engine/input_feed.h"
#include "core/train/sampling.h"

namespace trainer {

/// Sequences of tokens that a network continues, side by side, from one prompt.
class Generation {
 public:
  /// Of a program with the entries `prefill` and `decode` and caches for this many positions, and with its
  /// present weights.
  Generation(Executable& executable, int64_t positions);

  int64_t sequences() const { return sequences_; }
  int64_t vocabulary() const { return vocabulary_; }

  /// Every sequence becomes this prompt: at least 1 token, at most the caches' length, all below the
  /// vocabulary.
  void start(std::span<const int32_t> prompt);
  /// Of each sequence the logits (vocabulary) of the token after its last one; row by row.
  std::span<const float> next();
  /// Appends one token to each sequence.
  void append(std::span<const int32_t> tokens);
  /// Tokens of each sequence so far.
  int64_t length() const { return length_; }

 private:
  /// Writes tokens and their first position if the device reads them, and runs the entry.
  void run(size_t entry, TensorId input, const Buffer& tokens, int64_t first);
  int32_t* token_data(const Buffer& buffer) const { return reinterpret_cast<int32_t*>(buffer.data()); }

  Executable& executable_;
  InputFeed feed_;
  size_t prefill_, decode_;
  TensorId piece_input_, last_input_, first_input_, logits_;
  int64_t sequences_, piece_, positions_, vocabulary_;
  Buffer piece_tokens_, last_tokens_, first_;
  int64_t length_ = 0;
  std::vector<float> output_;
};

struct GenerationSettings {
  int64_t tokens = 0;      ///< largest number of generated tokens
  int64_t vocabulary = 0;  ///< tokens are below it, if the network has more outputs
  SamplingSettings sampling;
  uint64_t seed = 0;
  std::optional<int32_t> end;  ///< a sequence ends after this token
};

/// Called with each token of a sequence that has not ended.
using TokenSink = std::function<void(int64_t sequence, int32_t token)>;

/// Continues the prompt in each sequence until all have ended, have this many more tokens, or `stops` returns
/// true. A token depends on the prompt, the sequence's number and its place.
void continue_prompt(
    Generation& generation, std::span<const int32_t> prompt, const GenerationSettings& settings,
    const TokenSink& sink, const std::function<bool()>& stops = [] { return false; });

}  // namespace trainer
