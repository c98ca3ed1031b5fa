// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/class_counts.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/printable.h"

namespace trainer {

LabelCounts class_counts(const ImageSource& source) {
  LabelCounts counts;
  Image image;
  for (int64_t i = 0; i < source.size(); ++i) {
    const std::optional<int32_t> label = source.label_of(i);
    if (!label) break;
    image.label = *label;
    if (!source.has_label_sets()) {
      ++counts[*label];
    } else {
      for (const int32_t each : source.label_set(image)) ++counts[each];
    }
  }
  return counts;
}

std::vector<std::string> classes_without_validation(const LabelCounts& train, const LabelCounts& validation,
                                                    const std::vector<std::string>& names) {
  std::vector<std::string> without;
  for (const auto& [label, count] : train) {
    if (count == 0 || (validation.contains(label) && validation.at(label) > 0)) continue;
    const auto place = static_cast<size_t>(label);
    without.push_back(place < names.size() ? one_line(names[place]) : std::to_string(label));
  }
  return without;
}

std::string unvalidated_classes(const LabelCounts& train, const LabelCounts& validation,
                                const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::vector<std::string> without = classes_without_validation(train, validation, names);
  if (without.empty() || validation.empty()) return "";
  const auto classes = std::ranges::count_if(train, [](const auto& each) { return each.second > 0; });
  const size_t all = without.size(), more = all - std::min(all, kShown);
  without.resize(all - more);
  return fmt::format("{} of {} classes {} no sample for validation: {}{}", all, classes,
                     all == 1 ? "has" : "have", fmt::join(without, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

}  // namespace trainer
