// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/text/tokenizer_files.h"
#include "core/text/utf8.h"

namespace trainer {

std::pair<std::string, std::string> split_merge(const std::string& place, std::string_view text) {
  const size_t blank = text.find(' ');
  if (blank == std::string_view::npos || blank == 0 || blank + 1 == text.size() ||
      text.find(' ', blank + 1) != std::string_view::npos) {
    throw Error(ExitCode::data,
                fmt::format("{}: expected two tokens with a blank between them, found '{}'", place, text));
  }
  return {std::string(text.substr(0, blank)), std::string(text.substr(blank + 1))};
}

ByteLevelBpeParts read_gpt2_files(const std::string& vocabulary_path, std::string_view vocabulary,
                                  const std::string& merges_path, std::string_view merges) {
  ByteLevelBpeParts parts{.path = vocabulary_path};
  std::string problem;
  const std::optional<Json> tokens = Json::parse(vocabulary, &problem);
  if (!tokens || !tokens->is_object())
    throw Error(ExitCode::data, fmt::format("{}: expected an object of tokens {}", vocabulary_path, problem));
  for (const auto& [text, number] : tokens->members()) {
    const int64_t token = number.integer().value_or(-1);
    if (token < 0 || token > std::numeric_limits<int32_t>::max())
      throw Error(ExitCode::data,
                  fmt::format("{}: expected a number from 0 on for '{}'", vocabulary_path, text));
    parts.vocabulary.emplace_back(text, static_cast<int32_t>(token));
    constexpr std::string_view kEnd = "<|endoftext|>";  // no merge makes it
    if (text == kEnd) parts.added.push_back({.text = text, .token = static_cast<int32_t>(token)});
  }
  int64_t number = 0;
  for (size_t begin = 0; begin < merges.size();) {
    const size_t end = std::min(merges.find('\n', begin), merges.size());
    std::string_view line = merges.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    begin = end + 1;
    ++number;
    if (line.empty() || line.starts_with("#version")) continue;
    const std::string place = fmt::format("{}:{}", merges_path, number);
    if (!is_utf8(line))
      throw Error(ExitCode::data,
                  place + ": expected UTF-8, found bytes that are not text; is the file damaged?");
    parts.merges.push_back(split_merge(place, line));
  }
  parts.pre_tokenizer.add_split(std::make_unique<Regex>(kGpt2Pattern, vocabulary_path),
                                SplitBehavior::isolated, false);
  return parts;
}

}  // namespace trainer
