// SPDX-License-Identifier: Apache-2.0
#include "core/config/reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "core/config/fields.h"
#include "core/config/messages.h"
#include "core/config/other_names.h"

namespace trainer {
namespace {

/// "model.layers[3].conv2d" as "model.layers[].conv2d": one name for all layers of a kind.
std::string without_indices(const std::string& path) {
  std::string shorter;
  bool inside = false;
  for (char c : path) {
    if (c == ']') inside = false;
    if (!inside) shorter += c;
    if (c == '[') inside = true;
  }
  return shorter;
}

/// Whether a finding in a template has been reported already, for another use of it.
template <class Finding>
bool is_repeated(const Finding& finding, std::set<std::string>& known) {
  return finding.where.used_at != nullptr &&
         !known.insert(finding.key + "\n" + to_string(finding.where)).second;
}

bool is_at_or_under(const std::string& path, const std::string& above) {
  return path.starts_with(above) && (path.size() == above.size() || path[above.size()] == '.');
}

std::string where_it_belongs(const std::string& key, const std::vector<Reading::Declared>& places) {
  constexpr size_t kMostShown = 3;
  std::vector<std::string> names;
  for (const Reading::Declared& place : places) {
    std::string name = place.map_path.empty() ? "the top level" : "'" + without_indices(place.map_path) + "'";
    if (places.size() == 1 && !place.map_path.empty()) name = "'" + place.map_path + "'";
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  names.resize(std::min(names.size(), kMostShown));
  std::string text = fmt::format("'{}' belongs {} {}", key, names[0][0] == '\'' ? "under" : "at", names[0]);
  for (size_t i = 1; i < names.size(); ++i) text += " or " + names[i];
  return text;
}

}  // namespace

void Reading::error(const Location& where, const std::string& path, const std::string& text) {
  problems_.push_back({where, path, text});
}

void Reading::missing(Missing key) {
  if (!is_repeated(key, missing_in_templates_)) missing_.push_back(std::move(key));
}

void Reading::unknown(Unknown key) {
  if (!is_repeated(key, unknown_in_templates_)) unknown_.push_back(std::move(key));
}

bool Reading::is_missing(const Declared& key) const {
  return std::any_of(missing_.begin(), missing_.end(), [&](const Missing& missing) {
    return is_at_or_under(join_path(missing.map_path, missing.key), join_path(key.map_path, key.key));
  });
}

/// Drops errors about missing keys because the key at `path` was found under another name or elsewhere.
void Reading::forgive(const std::string& path) {
  std::erase_if(missing_, [&](const Missing& missing) {
    return is_at_or_under(join_path(missing.map_path, missing.key), path);
  });
}

/// The places in the recipe that allow a key of this name: the first that requires and lacks it, otherwise
/// those without it, otherwise all.
std::vector<Reading::Declared> Reading::elsewhere(const Unknown& unknown) const {
  std::vector<Declared> places;
  for (const Declared& key : declared_) {
    if (key.key == unknown.key) places.push_back(key);
  }
  const auto missing =
      std::find_if(places.begin(), places.end(), [&](const Declared& key) { return is_missing(key); });
  if (missing != places.end()) return {*missing};
  if (std::any_of(places.begin(), places.end(), [](const Declared& key) { return !key.is_given; })) {
    std::erase_if(places, [](const Declared& key) { return key.is_given; });
  }
  return places;
}

std::string Reading::judge(const Unknown& unknown) {
  const std::string key = shown(unknown.key);
  const std::string start = fmt::format("unknown key '{}'; ", key);
  if (const OtherName* other = find_other_name(unknown.key, unknown.map_path)) {
    forgive(other->ours);
    const std::string example = other->example;
    return start + fmt::format("recipes call it '{}'{}", other->ours,
                               example.empty() ? "" : fmt::format(", such as {}", example));
  }
  if (const auto near = nearest(unknown.key, unknown.absent)) {
    forgive(join_path(unknown.map_path, *near));
    return start + fmt::format("did you mean '{}'?", *near);
  }
  const std::vector<Declared> places = elsewhere(unknown);
  if (!places.empty()) {
    if (places.size() == 1) forgive(join_path(places[0].map_path, places[0].key));
    return start + where_it_belongs(key, places);
  }
  if (const auto near = nearest(unknown.key, unknown.given))
    return start + fmt::format("did you mean '{}'?", *near);
  std::vector<std::string> known = unknown.absent;
  known.insert(known.end(), unknown.given.begin(), unknown.given.end());
  return start + (known.empty() ? "no keys are known here" : "known keys: " + listed(known));
}

void Reading::finish(Diagnostics& diagnostics) {
  for (const Unknown& unknown : unknown_) error(unknown.where, unknown.map_path, judge(unknown));
  for (const Missing& missing : missing_) {
    if (!missing.text.empty()) {
      error(missing.named, missing.text);
      continue;
    }
    error(missing.where, missing.map_path,
          fmt::format("missing key '{}', expected {}", missing.key, missing.expected));
  }
  std::stable_sort(problems_.begin(), problems_.end(), [](const Problem& a, const Problem& b) {
    const bool a_is_argument = a.where.file == kCommandLine, b_is_argument = b.where.file == kCommandLine;
    return std::tie(a_is_argument, a.where.file, a.where.line, a.where.column) <
           std::tie(b_is_argument, b.where.file, b.where.line, b.where.column);
  });
  for (const Problem& problem : problems_) diagnostics.error(problem.where, problem.path, problem.text);
}

}  // namespace trainer
