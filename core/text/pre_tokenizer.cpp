// SPDX-License-Identifier: Apache-2.0
#include "core/text/pre_tokenizer.h"

#include <utility>

namespace trainer {
namespace {

/// Joins matches and gaps, which come from left to right without holes, into pieces. The last piece is held
/// back while it may still grow.
class PieceJoiner {
 public:
  PieceJoiner(SplitBehavior behavior, std::string_view text, const PieceSink& sink)
      : behavior_(behavior), text_(text), sink_(sink) {}

  void add(size_t begin, size_t end, bool is_match) {
    if (has_any_ && grows_by(is_match)) {
      end_ = end;
    } else {
      finish();
      begin_ = begin, end_ = end, is_dropped_ = is_match && behavior_ == SplitBehavior::removed;
      has_any_ = true;
    }
    last_is_match_ = is_match;
  }
  void finish() {
    if (end_ > begin_ && !is_dropped_) sink_(text_.substr(begin_, end_ - begin_));
    begin_ = end_ = 0;
  }

 private:
  bool grows_by(bool is_match) const {
    switch (behavior_) {
      case SplitBehavior::merged_with_previous:
        return is_match && !last_is_match_;
      case SplitBehavior::merged_with_next:
        return !is_match && last_is_match_;
      case SplitBehavior::contiguous:
        return is_match == last_is_match_;
      default:
        return false;
    }
  }

  SplitBehavior behavior_;
  std::string_view text_;
  const PieceSink& sink_;
  size_t begin_ = 0, end_ = 0;
  bool has_any_ = false, last_is_match_ = false, is_dropped_ = false;
};

}  // namespace

void PreTokenizer::add_split(std::unique_ptr<Regex> pattern, SplitBehavior behavior, bool inverted) {
  steps_.push_back({std::move(pattern), behavior, inverted});
}

void PreTokenizer::add_prefix_blank() {
  steps_.push_back({});
}

void PreTokenizer::cut_from(size_t number, std::string_view text, const PieceSink& sink) const {
  if (text.empty()) return;
  if (number == steps_.size()) return sink(text);
  const Step& step = steps_[number];
  const PieceSink next = [&](std::string_view piece) { cut_from(number + 1, piece, sink); };
  if (!step.pattern) return next(text.starts_with(' ') ? text : ' ' + std::string(text));
  PieceJoiner pieces(step.behavior, text, next);
  size_t done = 0;
  step.pattern->find_all(text, [&](size_t begin, size_t end) {
    if (begin > done) pieces.add(done, begin, step.inverted);
    pieces.add(begin, end, !step.inverted);
    done = end;
  });
  if (text.size() > done) pieces.add(done, text.size(), step.inverted);
  pieces.finish();
}

}  // namespace trainer
