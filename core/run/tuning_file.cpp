// SPDX-License-Identifier: Apache-2.0
#include "core/run/tuning_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/storage/atomic_file.h"

namespace trainer {

Tuning load_tuning(const std::filesystem::path& file) {
  const std::optional<std::string> text = read_text(file, Links::refuse);
  if (!text) return {};
  const Json json = Json::parse_or_null(*text);
  Tuning tuning;
  const auto is_text = [](const Json::Member& member) { return member.second.is_text(); };
  if (!json.is_object() || !std::ranges::all_of(json.members(), is_text)) {
    throw Error(ExitCode::data, fmt::format("{} contains no list of algorithms; remove it to time them again",
                                            one_line(file.string())));
  }
  for (const auto& [key, value] : json.members()) tuning.fastest[key] = value.text();
  return tuning;
}

void save_tuning(const Tuning& tuning, const std::filesystem::path& file) {
  write_atomically(file, Json(tuning.fastest).dump(2) + "\n");
}

}  // namespace trainer
