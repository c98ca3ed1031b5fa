// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trainer {

/// Nesting of maps and lists in a recipe.
constexpr int kMaxDepth = 64;
/// Keys and values of a recipe after aliases are expanded; far above any real one, and read in milliseconds.
constexpr size_t kMaxNodes = 100'000;
/// Bytes of text of a recipe, in its file and after aliases and environment variables are expanded.
constexpr size_t kMaxBytes = size_t{4} << 20;

/// One step through a YAML document with its place, counted from 1. Aliases are already expanded.
struct Event {
  enum class Kind { null, scalar, list_start, list_end, map_start, map_end };
  Kind kind;
  int line = 0;
  int column = 0;
  std::string text;
  bool quoted = false;
  bool copied = false;  ///< by an alias: its errors are reported at the anchor
};

/// The reason why a document cannot be read, and its place.
struct Refusal {
  int line;
  int column;
  std::string text;
};

/// The events of the only document in `text`; none if it is empty. Throws Refusal.
std::vector<Event> read_events(const std::string& text);

}  // namespace trainer
