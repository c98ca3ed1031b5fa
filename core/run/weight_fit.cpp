// SPDX-License-Identifier: Apache-2.0
#include "core/run/weight_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/base/printable.h"
#include "core/config/fields.h"
#include "core/config/patterns.h"

namespace trainer {
namespace {

/// Differences between a file and a network that are listed.
constexpr size_t kMostShown = 12;

/// The patterns, and the head's if the file lacks a tensor of it or has one in another shape.
std::vector<std::string> patterns_for(const std::vector<const Tensor*>& weights, const WeightNames& names,
                                      const Replaced& replaced) {
  std::vector<std::string> patterns = replaced.patterns;
  const bool fits = std::ranges::all_of(weights, [&](const Tensor* weight) {
    if (replaced.head.empty() || !matches(replaced.head, weight->name)) return true;
    const StoredTensor* stored = names.find(weight->name);
    return stored != nullptr && stored->shape == whole_shape(*weight);
  });
  if (!fits) patterns.push_back(replaced.head);
  return patterns;
}

/// A line for each tensor that does not fit.
struct Differences {
  std::vector<std::string> missing, reshaped, unexpected;
  size_t count() const { return missing.size() + reshaped.size() + unexpected.size(); }
};

Differences differences(const std::vector<const Tensor*>& weights, const WeightNames& names,
                        const std::vector<std::string>& replaced, bool may_lack) {
  Differences found;
  std::vector<std::string> unexpected;
  for (const StoredTensor* stored : names.unexpected) {
    if (!matches_any(replaced, stored->name)) unexpected.push_back(stored->name);
  }
  for (const Tensor* weight : weights) {
    if (matches_any(replaced, weight->name)) continue;
    const StoredTensor* stored = names.find(weight->name);
    const std::string name = one_line(weight->name), shape = to_string(whole_shape(*weight));
    if (stored == nullptr && !may_lack) {
      const bool suggests = found.missing.size() < kMostShown;
      const auto near = suggests ? nearest(weight->name, unexpected) : std::nullopt;
      found.missing.push_back(
          fmt::format("the file has no '{}' of shape {}{}", name, shape,
                      near ? fmt::format("; the nearest name is '{}'", one_line(*near)) : ""));
    } else if (stored != nullptr && stored->shape != whole_shape(*weight)) {
      found.reshaped.push_back(
          fmt::format("'{}' has shape {}, the network needs {}", name, to_string(stored->shape), shape));
    }
  }
  for (const std::string& name : unexpected)
    found.unexpected.push_back(fmt::format("the network has no '{}'", one_line(name)));
  return found;
}

/// All differences; of many, the first of each kind, and their numbers.
std::string text_of(const Differences& differences) {
  const bool is_cut = differences.count() > kMostShown;
  std::string text;
  for (const auto* lines : {&differences.missing, &differences.reshaped, &differences.unexpected}) {
    const size_t count = is_cut ? std::min(lines->size(), kMostShown / 3) : lines->size();
    for (size_t i = 0; i < count; ++i) text += "\n  " + (*lines)[i];
  }
  if (is_cut) {
    text +=
        fmt::format("\n  in all {} missing, {} of another shape, {} unexpected", differences.missing.size(),
                    differences.reshaped.size(), differences.unexpected.size());
  }
  return text;
}

/// A copy that differs from its original was trained apart: without it, the network would be another one.
void check_copies(const std::filesystem::path& path, const SafetensorsFile& file, const WeightNames& names) {
  for (const WeightNames::Copy& pair : names.copies) {
    const std::vector<float> copy = file.read_floats(*pair.copy), original = file.read_floats(*pair.original);
    if (std::memcmp(copy.data(), original.data(), copy.size() * sizeof(float)) == 0) continue;
    throw Error(
        ExitCode::data,
        fmt::format("{} does not fit the network: its '{}' differs from '{}', and the network has one "
                    "weight for both; remove `weight_of` from that layer",
                    one_line(path.string()), one_line(pair.copy->name), one_line(pair.original->name)));
  }
}

}  // namespace

std::vector<std::string> require_fit(const std::vector<const Tensor*>& weights,
                                     const std::filesystem::path& path, const SafetensorsFile& file,
                                     const WeightNames& names, const Replaced& replaced, bool may_lack) {
  std::vector<std::string> patterns = patterns_for(weights, names, replaced);
  const Differences wrong = differences(weights, names, patterns, may_lack);
  if (wrong.count() > 0) {
    const bool can_replace = !replaced.origin.path.empty();
    throw Error(
        ExitCode::data,
        fmt::format("{} does not fit the network{}:{}", one_line(path.string()),
                    can_replace ? "; list what to re-initialise in model.replace" : "", text_of(wrong)));
  }
  check_copies(path, file, names);
  return patterns;
}

}  // namespace trainer
