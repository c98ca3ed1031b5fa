// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/regex.h"

namespace trainer {

/// Takes the pieces of a text, in order; none is empty.
using PieceSink = std::function<void(std::string_view piece)>;

/// The treatment of a pattern's matches and of the text between them.
enum class SplitBehavior {
  isolated,              ///< each a piece of its own
  removed,               ///< matches are dropped
  merged_with_previous,  ///< a match ends the piece before it
  merged_with_next,      ///< a match begins the piece after it
  contiguous             ///< matches that touch each other are one piece
};

/// Cuts texts of well-formed UTF-8 into words, within which tokens are merged. It has steps, as Hugging
/// Face's pre-tokenizers: each cuts the pieces of the one before.
class PreTokenizer {
 public:
  void add_split(std::unique_ptr<Regex> pattern, SplitBehavior behavior, bool inverted);
  /// Adds a blank before each piece that does not begin with one.
  void add_prefix_blank();

  void cut(std::string_view text, const PieceSink& sink) const { cut_from(0, text, sink); }

 private:
  struct Step {
    std::unique_ptr<Regex> pattern;  ///< null: a blank is put before
    SplitBehavior behavior = SplitBehavior::isolated;
    bool inverted = false;
  };
  void cut_from(size_t number, std::string_view text, const PieceSink& sink) const;

  std::vector<Step> steps_;
};

}  // namespace trainer
