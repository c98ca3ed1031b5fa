// SPDX-License-Identifier: Apache-2.0
#include "core/run/run_settings.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "core/base/regular_file.h"
#include "core/config/old_keys.h"
#include "core/config/value.h"

namespace trainer {
namespace {

/// Whether it only names a run or its source, not its work.
bool names_a_run(const std::string& key) {
  return key == "run.name" || key == "run.output_dir" || key == "run.resume" ||
         key.starts_with("run.allow_changes");
}

/// The end of a key after its last `dots` dots; all of it if there are no more.
std::string end_of(const std::string& key, size_t dots) {
  size_t begin = key.size();
  for (size_t i = 0; i <= dots; ++i) {
    if (begin == 0) return key;
    begin = key.rfind('.', begin - 1);
    if (begin == std::string::npos) return key;
  }
  return key.substr(begin + 1);
}

}  // namespace

int interest_in(const std::string& key) {
  constexpr std::array<std::string_view, 16> kOrder = {"optimizer.lr",   "training.global_batch_size",
                                                       "optimizer.name", "model.network",
                                                       "model.",         "optimizer.",
                                                       "lr_scheduler.",  "training.",
                                                       "loss.",          "data.format",
                                                       "data.train",     "data.",
                                                       "run.seed",       "guards.",
                                                       "validation.",    "run."};
  const auto* found =
      std::ranges::find_if(kOrder, [&](std::string_view start) { return key.starts_with(start); });
  return static_cast<int>(found - kOrder.begin());
}

Settings read_settings(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "recipe.yaml";
  const std::optional<std::string> text = read_text(file, Links::refuse);
  Diagnostics ignored;
  Settings settings;
  if (!text) return settings;
  for (const auto& [path, value] : leaves(parse_yaml(*text, file.string(), ignored))) {
    Leaf leaf = under_new_name({path, value});
    settings[leaf.path] = leaf.value;
  }
  return settings;
}

std::vector<std::string> differing_keys(const std::vector<Settings>& runs) {
  std::map<std::string, std::set<std::string>> values;
  std::map<std::string, size_t> count;
  size_t with_settings = 0;
  for (const Settings& run : runs) {
    with_settings += run.empty() ? 0 : 1;
    for (const auto& [key, value] : run) values[key].insert(value), ++count[key];
  }
  std::vector<std::string> keys;
  for (const auto& [key, found] : values)
    if ((found.size() > 1 || count[key] < with_settings) && !names_a_run(key)) keys.push_back(key);
  std::ranges::stable_sort(keys, {}, interest_in);
  return keys;
}

std::vector<std::string> short_names(const std::vector<std::string>& keys) {
  std::vector<std::string> names;
  for (const std::string& key : keys) {
    size_t dots = 0;
    const auto is_taken = [&] {
      return std::ranges::count_if(keys, [&](const std::string& other) {
               return end_of(other, dots) == end_of(key, dots);
             }) > 1;
    };
    while (is_taken() && end_of(key, dots) != key) ++dots;
    names.push_back(end_of(key, dots));
  }
  return names;
}

}  // namespace trainer
