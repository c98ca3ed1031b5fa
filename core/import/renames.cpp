// SPDX-License-Identifier: Apache-2.0
#include "core/import/renames.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/config/fields.h"
#include "core/import/tensor_name.h"

namespace trainer {
namespace {

[[noreturn]] void refuse_rename(const std::string& text, const std::string& reason) {
  throw Error(ExitCode::usage, fmt::format("--rename {}: {}", one_line(text), reason));
}

constexpr char kAnyText = '*';

bool is_prefix(const std::string& name) {
  return name.ends_with('.');
}

bool has_two_stars(const std::string& name) {
  return std::ranges::count(name, kAnyText) > 1;
}

/// A part of a name that a rename replaces, from its first character on.
struct Match {
  size_t length = 0;
  std::string any;  ///< the text of the `*`
};

std::optional<Match> match(const std::string& from, const std::string& name) {
  const size_t star = from.find(kAnyText);
  if (star == std::string::npos) {
    const bool fits = is_prefix(from) ? name.starts_with(from) : name == from;
    return fits ? std::optional(Match{from.size(), ""}) : std::nullopt;
  }
  const std::string before = from.substr(0, star), after = from.substr(star + 1);
  if (!name.starts_with(before)) return std::nullopt;
  // A whole name ends with the text after the star, of which an earlier place does not count.
  const bool has_room = name.size() >= before.size() + after.size();
  if (!is_prefix(from) && !(has_room && name.ends_with(after))) return std::nullopt;
  const size_t end = is_prefix(from) ? name.find(after, star) : name.size() - after.size();
  if (end == std::string::npos) return std::nullopt;
  return Match{end + after.size(), name.substr(star, end - star)};
}

/// The new name in full.
std::string renamed(const std::string& to, const Match& found, const std::string& name) {
  std::string text = to;
  if (const size_t star = text.find(kAnyText); star != std::string::npos) text.replace(star, 1, found.any);
  return text + name.substr(found.length);
}

/// The names or, for a prefix, everything that ends with a dot at the start of a name.
std::vector<std::string> candidates_for(const Rename& rename, const std::vector<StoredTensor>& tensors) {
  std::set<std::string> found;
  for (const StoredTensor& tensor : tensors) {
    if (!is_prefix(rename.from)) found.insert(tensor.name);
    for (size_t dot = tensor.name.find('.'); is_prefix(rename.from) && dot != std::string::npos;
         dot = tensor.name.find('.', dot + 1))
      found.insert(tensor.name.substr(0, dot + 1));
  }
  return {found.begin(), found.end()};
}

}  // namespace

Rename parse_rename(const std::string& text) {
  const size_t sign = text.find('=');
  if (sign == std::string::npos || sign == 0)
    refuse_rename(text, "expected OLD=NEW, as in backbone.=encoder.");
  Rename rename{text.substr(0, sign), text.substr(sign + 1)};
  if (is_prefix(rename.from) ? !rename.to.empty() && !is_prefix(rename.to)
                             : is_prefix(rename.to) || rename.to.empty())
    refuse_rename(text, "expected two names, or two prefixes that end with a dot; a new prefix may be empty");
  if (has_two_stars(rename.from) || has_two_stars(rename.to))
    refuse_rename(text, "a name may have one *, which stands for any text");
  if (rename.to.find(kAnyText) != std::string::npos && rename.from.find(kAnyText) == std::string::npos)
    refuse_rename(text, "the * of the new name needs one in the old name, whose text it stands for");
  return rename;
}

void rename_tensors(std::vector<StoredTensor>& tensors, const std::vector<Rename>& renames) {
  for (const Rename& rename : renames) {
    const std::string text = rename.from + "=" + rename.to;
    bool is_used = false;
    for (StoredTensor& tensor : tensors) {
      const std::optional<Match> found = match(rename.from, tensor.name);
      if (!found) continue;
      is_used = true;
      tensor.name = renamed(rename.to, *found, tensor.name);
      if (!is_tensor_name(tensor.name))
        refuse_rename(text, "leaves a name that a safetensors file cannot have");
    }
    if (is_used) continue;
    const std::optional<std::string> near = nearest(rename.from, candidates_for(rename, tensors));
    const std::string advice =
        near ? fmt::format("did you mean '{}'?", one_line(*near)) : "--list prints the names";
    refuse_rename(text,
                  fmt::format("no tensor {} '{}'; {}", is_prefix(rename.from) ? "begins with" : "is named",
                              one_line(rename.from), advice));
  }
}

}  // namespace trainer
