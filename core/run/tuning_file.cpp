// SPDX-License-Identifier: Apache-2.0
#include "core/run/tuning_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/storage/atomic_file.h"

namespace trainer {

Tuning load_tuning(const std::filesystem::path& file) {
  const std::optional<std::string> text = read_text(file);
  if (!text) return {};
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  Tuning tuning;
  bool valid = json.is_object();
  for (auto entry = json.begin(); valid && entry != json.end(); ++entry) {
    valid = entry->is_string();
    if (valid) tuning.fastest[entry.key()] = entry->get<std::string>();
  }
  if (!valid) {
    throw Error(ExitCode::data, fmt::format("{} contains no list of algorithms; remove it to time them again",
                                            file.string()));
  }
  return tuning;
}

void save_tuning(const Tuning& tuning, const std::filesystem::path& file) {
  write_atomically(file, nlohmann::ordered_json(tuning.fastest).dump(2) + "\n");
}

}  // namespace trainer
