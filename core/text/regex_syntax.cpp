// SPDX-License-Identifier: Apache-2.0
#include "core/text/regex_syntax.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "core/base/error.h"

namespace trainer {
namespace {

class SyntaxReader {
 public:
  SyntaxReader(const std::string& pattern, const std::string& place) : text_(pattern), place_(place) {}

  std::string read() {
    while (at_ < text_.size()) {
      if (text_[at_] == '\\') {
        escape();
      } else if (in_class_) {
        in_class();
      } else {
        outside();
      }
    }
    return written_;
  }

 private:
  bool next_is(std::string_view what) const { return text_.compare(at_, what.size(), what) == 0; }
  void copy(size_t count = 1) {
    count = std::min(count, text_.size() - at_);
    written_ += text_.substr(at_, count);
    at_ += count;
  }
  [[noreturn]] void refuse(size_t count) const {
    throw Error(ExitCode::recipe,
                fmt::format("{}: the pattern {} has '{}', which is not supported; use another tokenizer",
                            place_, text_, text_.substr(at_, count)));
  }

  void escape() {
    const char letter = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (letter == 's' || letter == 'S') {
      written_ += letter == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
      at_ += 2;
    } else if (letter == 'p' || letter == 'P') {
      property();
    } else if (std::isalnum(static_cast<unsigned char>(letter)) == 0 ||
               std::string_view("dDrntfAzZ").find(letter) != std::string_view::npos) {
      copy(2);
    } else {
      refuse(2);  // \w and \b have other characters, \h and \v are something else altogether
    }
  }

  /// Names of one or two letters are categories. PCRE2 takes a script's bare name for its extensions, too.
  void property() {
    copy(2);
    if (!next_is("{")) return;
    copy();
    if (next_is("^")) copy();
    const size_t end = std::min(text_.find('}', at_), text_.size());
    if (end - at_ > 2) written_ += "sc:";
    copy(end + 1 - at_);
  }

  /// Oniguruma's classes may contain classes and intersections.
  void in_class() {
    if (next_is("[") || next_is("&&")) refuse(2);
    in_class_ = text_[at_] != ']' || at_ == class_begin_;
    copy();
  }

  void outside() {
    if (next_is("}+")) refuse(2);  // possessive in PCRE2 only
    if (next_is("(?")) return group();
    in_class_ = text_[at_] == '[';
    copy();
    if (in_class_ && next_is("^")) copy();
    class_begin_ = at_;
  }

  void group() {
    const char kind = at_ + 2 < text_.size() ? text_[at_ + 2] : '\0';
    if (std::string_view(":=!<>i").find(kind) == std::string_view::npos) refuse(3);
    copy(3);
  }

  const std::string& text_;
  const std::string& place_;
  std::string written_;
  size_t at_ = 0, class_begin_ = 0;
  bool in_class_ = false;
};

}  // namespace

std::string pcre2_pattern(const std::string& pattern, const std::string& place) {
  return SyntaxReader(pattern, place).read();
}

}  // namespace trainer
