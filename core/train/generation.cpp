// SPDX-License-Identifier: Apache-2.0
#include "core/train/generation.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "core/graph/names.h"

namespace trainer {
namespace {

const Shape& shape_of(const Executable& executable, TensorId id) {
  return executable.plan().tensors[static_cast<size_t>(id)].spec.shape;
}

/// Host memory for an input, from which the device reads.
Buffer memory_of(Executable& executable, TensorId id) {
  return executable.device().allocate_batch(numel(shape_of(executable, id)) *
                                            static_cast<int64_t>(sizeof(int32_t)));
}

}  // namespace

Generation::Generation(Executable& executable, int64_t positions)
    : executable_(executable),
      feed_(executable),
      prefill_(executable.entry(entry_name::kPrefill)),
      decode_(executable.entry(entry_name::kDecode)),
      piece_input_(executable.tensor(input_name::kTokens)),
      last_input_(executable.tensor(input_name::kNextTokens)),
      first_input_(executable.tensor(input_name::kFirstPosition)),
      logits_(executable.plan().entries[decode_].output(output_name::kLogits)),
      sequences_(shape_of(executable, piece_input_)[0]),
      piece_(shape_of(executable, piece_input_)[1]),
      positions_(positions),
      vocabulary_(shape_of(executable, logits_)[2]),
      piece_tokens_(memory_of(executable, piece_input_)),
      last_tokens_(memory_of(executable, last_input_)),
      first_(memory_of(executable, first_input_)) {}

void Generation::run(size_t entry, TensorId input, const Buffer& tokens, int64_t first) {
  *token_data(first_) = static_cast<int32_t>(first);
  const std::array<InputData, 2> batch = {InputData{input, tokens.data()},
                                          InputData{first_input_, first_.data()}};
  feed_.make_room();
  feed_.give(batch);
  executable_.run(entry);
  feed_.done();
}

void Generation::start(std::span<const int32_t> prompt) {
  length_ = static_cast<int64_t>(prompt.size());
  if (length_ < 1 || length_ > positions_) throw std::logic_error("a prompt of no tokens, or of too many");
  // The last token is decode's, which gives the logits after it.
  for (int64_t begin = 0; begin < length_ - 1; begin += piece_) {
    // A piece that would reach beyond the last position begins earlier, and writes some rows again.
    const int64_t first = std::min(begin, positions_ - piece_);
    for (int64_t i = 0; i < sequences_ * piece_; ++i) {
      const int64_t place = first + i % piece_;
      token_data(piece_tokens_)[i] = place < length_ ? prompt[static_cast<size_t>(place)] : 0;
    }
    run(prefill_, piece_input_, piece_tokens_, first);
    executable_.device().synchronize(
        executable_.device().record_event());  // the tokens' memory is used again
  }
  std::fill_n(token_data(last_tokens_), sequences_, prompt.back());
}

std::span<const float> Generation::next() {
  run(decode_, last_input_, last_tokens_, length_ - 1);
  output_ = executable_.read(logits_);
  return output_;
}

void Generation::append(std::span<const int32_t> tokens) {
  if (static_cast<int64_t>(tokens.size()) != sequences_ || length_ == positions_)
    throw std::logic_error("a token for each sequence, and room for it");
  std::ranges::copy(tokens, token_data(last_tokens_));
  ++length_;
}

void continue_prompt(Generation& generation, std::span<const int32_t> prompt,
                     const GenerationSettings& settings, const TokenSink& sink,
                     const std::function<bool()>& stops) {
  TokenSampler sampler(settings.sampling);
  const auto vocabulary = static_cast<size_t>(generation.vocabulary());
  const auto known = std::min(vocabulary, static_cast<size_t>(settings.vocabulary));
  std::vector<int32_t> tokens(static_cast<size_t>(generation.sequences()));
  std::vector<bool> ended(tokens.size(), false);
  generation.start(prompt);
  for (int64_t i = 0; i < settings.tokens && !stops(); ++i) {
    if (i > 0) generation.append(tokens);
    const std::span<const float> logits = generation.next();
    for (size_t row = 0; row < tokens.size(); ++row) {
      if (ended[row]) continue;
      const auto sequence = static_cast<int64_t>(row);
      tokens[row] = sampler.pick(logits.subspan(row * vocabulary, known),
                                 token_draw(settings.seed, sequence, generation.length()));
      ended[row] = tokens[row] == settings.end;
      sink(sequence, tokens[row]);
    }
    if (std::ranges::find(ended, false) == ended.end()) return;
  }
}

}  // namespace trainer
