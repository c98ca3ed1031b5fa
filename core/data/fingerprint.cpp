// SPDX-License-Identifier: Apache-2.0
#include "core/data/fingerprint.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace trainer {

std::optional<std::string> fingerprint_difference(const Fingerprint& there, const Fingerprint& here) {
  using fingerprint_name::kClasses;
  using fingerprint_name::kContents;
  using fingerprint_name::kExcluded;
  using fingerprint_name::kGroups;
  using fingerprint_name::kLabels;
  using fingerprint_name::kNames;
  using fingerprint_name::kSamples;
  using fingerprint_name::kTokenizer;
  using fingerprint_name::kTokens;
  using fingerprint_name::kWeights;
  const auto differs = [&](const char* name) {
    const auto before = there.find(name), now = here.find(name);
    return before != there.end() && now != here.end() && before->second != now->second;
  };
  // With other samples all that follows differs too.
  if (differs(kSamples))
    return fmt::format("{} samples there and {} here", there.at(kSamples), here.at(kSamples));
  if (differs(kTokens))
    return fmt::format("{} tokens there and {} here", there.at(kTokens), here.at(kTokens));
  std::vector<std::string> found;
  for (const auto& [name, text] : {std::pair{kTokenizer, "tokenizer"},
                                   {kClasses, "class names"},
                                   {kNames, "file names"},
                                   {kLabels, "labels"},
                                   {kWeights, "weights"},
                                   {kGroups, "groups (data.split_by)"},
                                   {kExcluded, "excluded samples (data.exclude)"},
                                   {kContents, "contents"}}) {
    if (differs(name)) found.push_back(fmt::format("other {}", text));
  }
  if (found.empty()) return std::nullopt;
  return fmt::format("{}", fmt::join(found, ", "));
}

}  // namespace trainer
