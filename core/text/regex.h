// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace trainer {

/// A regular expression over characters, in the syntax of the files of tokenizers (Oniguruma's), matched by
/// PCRE2. Constructs that the two libraries interpret differently are rewritten or refused.
class Regex {
 public:
  /// Throws Error (exit 78): "PLACE: ..." if the pattern is damaged or uses a refused construct.
  Regex(const std::string& pattern, const std::string& place);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  /// Calls `found` with the borders of each match, from left to right; an empty one does not follow another
  /// match at once. The text must be well-formed UTF-8. Throws Error (exit 65) if matching takes too long.
  void find_all(std::string_view text, const std::function<void(size_t begin, size_t end)>& found) const;

 private:
  struct Code;
  std::string place_;
  std::unique_ptr<Code> code_;
};

/// A pattern that matches only this text.
std::string literal_pattern(std::string_view text);

}  // namespace trainer
