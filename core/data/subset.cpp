// SPDX-License-Identifier: Apache-2.0
#include "core/data/subset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/data/iterative_stratification.h"
#include "core/data/order.h"
#include "core/data/places.h"

namespace trainer {
namespace {

/// The samples that are set aside, or the others; ascending.
std::vector<int64_t> side(const std::vector<bool>& is_set_aside, Split split) {
  std::vector<int64_t> samples;
  for (size_t i = 0; i < is_set_aside.size(); ++i)
    if (is_set_aside[i] == (split == Split::val)) samples.push_back(static_cast<int64_t>(i));
  return samples;
}

/// The samples of each class to set aside: the shares rounded down, and one more for the largest remainders.
std::vector<int64_t> class_shares(const std::vector<int64_t>& sizes, double fraction) {
  const int64_t size = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const auto most = size - static_cast<int64_t>(sizes.size());
  int64_t left = std::min(validation_count(size, fraction), most);
  std::vector<int64_t> shares;
  for (const int64_t count : sizes) {
    shares.push_back(std::min(count - 1, static_cast<int64_t>(fraction * static_cast<double>(count))));
    left -= shares.back();
  }
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t c) {
    return fraction * static_cast<double>(sizes[c]) - static_cast<double>(shares[c]);
  });
  for (size_t i = 0; left > 0; i = (i + 1) % order.size()) {
    const size_t c = order[i];
    if (shares[c] + 1 >= sizes[c]) continue;
    ++shares[c], --left;
  }
  return shares;
}

/// How many samples of each class a group has.
using ClassCounts = std::map<size_t, int64_t>;

/// Classes, groups and the choice between them.
class GroupSplit {
 public:
  GroupSplit(const SampleLabelSets& sets, std::span<const int32_t> groups, double fraction)
      : classes_(sets.classes), groups_(groups), sizes_(classes_.size()), taken_(classes_.size()) {
    counts_.resize(groups_.size());
    for (size_t i = 0; i < sets.size(); ++i) {
      for (const int32_t label : sets[i]) {
        ++counts_[groups_.of(groups[i])][classes_.of(label)];
        ++sizes_[classes_.of(label)];
      }
    }
    for (const int64_t size : sizes_) wanted_.push_back(fraction * static_cast<double>(size));
  }

  /// Whether each group is set aside; nothing if none can be.
  std::optional<std::vector<bool>> choose(uint64_t key) {
    const auto count = static_cast<int64_t>(groups_.size());
    std::vector<bool> is_taken(groups_.size());
    std::optional<size_t> best;
    bool has_any = false;
    for (int64_t i = 0; i < count; ++i) {
      const auto group = static_cast<size_t>(shuffled_index(key, 0, i, count));
      if (!leaves_each_class(group)) continue;
      if (gain(group) > 0) {
        for (const auto& [c, n] : counts_[group]) taken_[c] += n;
        has_any = is_taken[group] = true;
      } else if (!has_any && (!best || gain(group) > gain(*best))) {
        best = group;  // the smallest mistake, if all groups are larger than the shares
      }
    }
    if (!has_any && !best) return std::nullopt;
    if (!has_any) is_taken[*best] = true;
    return is_taken;
  }

  size_t group(int32_t number) const { return groups_.of(number); }

 private:
  bool leaves_each_class(size_t group) const {
    return std::ranges::all_of(counts_[group], [&](const auto& each) {
      return taken_[each.first] + each.second < sizes_[each.first];
    });
  }
  /// By how much the group brings the classes' numbers nearer to the wanted ones.
  double gain(size_t group) const {
    double sum = 0;
    for (const auto& [c, n] : counts_[group]) {
      const double before = wanted_[c] - static_cast<double>(taken_[c]);
      sum += std::abs(before) - std::abs(before - static_cast<double>(n));
    }
    return sum;
  }

  Places classes_, groups_;
  std::vector<int64_t> sizes_, taken_;  // of each class
  std::vector<double> wanted_;          // of each class
  std::vector<ClassCounts> counts_;     // of each group
};

constexpr const char* kSplitKey = "validation split";

/// The fold of each sample. Classes follow one another in a random order of their samples, dealt in turn.
std::vector<int64_t> folds_of_samples(int64_t size, const std::vector<int32_t>& labels,
                                      const SplitChoice& choice) {
  const uint64_t order = random_key(choice.seed, kSplitKey);
  std::map<int32_t, std::vector<size_t>> classes;
  for (int64_t i = 0; i < size; ++i) {
    const auto sample = static_cast<size_t>(shuffled_index(order, 0, i, size));
    classes[labels.empty() ? 0 : labels[sample]].push_back(sample);
  }
  std::vector<int64_t> folds(static_cast<size_t>(size));
  int64_t next = 0;
  for (const auto& [label, samples] : classes) {
    for (const size_t sample : samples) folds[sample] = next++ % choice.folds;
  }
  return folds;
}

std::vector<int64_t> folds_of_groups(const std::vector<int32_t>& groups, const SplitChoice& choice) {
  const Places places(groups);
  std::vector<int64_t> sizes(places.size()), filled(static_cast<size_t>(choice.folds)),
      fold_of(places.size());
  for (const int32_t group : groups) ++sizes[places.of(group)];
  const auto count = static_cast<int64_t>(sizes.size());
  std::vector<size_t> order;
  for (int64_t i = 0; i < count; ++i)
    order.push_back(static_cast<size_t>(shuffled_index(random_key(choice.seed, kSplitKey), 0, i, count)));
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t group) { return sizes[group]; });
  for (const size_t group : order) {
    const auto smallest = std::ranges::min_element(filled);
    *smallest += sizes[group];
    fold_of[group] = smallest - filled.begin();
  }
  std::vector<int64_t> folds;
  for (const int32_t group : groups) folds.push_back(fold_of[places.of(group)]);
  return folds;
}

std::vector<int64_t> fold_samples(int64_t size, const SplitBy& by, const SplitChoice& choice) {
  const std::vector<int64_t> folds =
      by.groups.empty() ? folds_of_samples(size, by.labels, choice) : folds_of_groups(by.groups, choice);
  std::vector<bool> is_set_aside;
  for (const int64_t fold : folds) is_set_aside.push_back(fold == choice.fold);
  std::vector<int64_t> samples = side(is_set_aside, choice.split);
  if (samples.empty() || samples.size() == folds.size())
    throw Error(ExitCode::data,
                fmt::format("data.fold: {} {} cannot be divided into {} parts", size,
                            by.groups.empty() ? "samples" : "samples in groups", choice.folds));
  return samples;
}

SampleLabelSets one_label_each(std::span<const int32_t> labels) {
  SampleLabelSets sets;
  for (const int32_t& label : labels) sets.add({&label, 1});
  return sets;
}

}  // namespace

std::vector<int64_t> chosen_samples(int64_t size, SplitBy by, const SplitChoice& choice) {
  if (choice.folds > 0) return fold_samples(size, by, choice);
  const bool has_sets = by.label_sets.size() > 0;
  if (by.groups.empty()) {
    if (has_sets) return split_label_sets(by.label_sets, choice);
    return by.labels.empty() ? split_samples(size, choice) : split_classes(by.labels, choice);
  }
  if (has_sets) return split_groups(by.label_sets, by.groups, choice);
  by.labels.resize(by.groups.size());  // all of one class, if there are none
  return split_groups(by.labels, by.groups, choice);
}

int64_t validation_count(int64_t size, double fraction) {
  if (size < 2) throw Error(ExitCode::data, "data.val_fraction: one sample cannot be split");
  return std::clamp<int64_t>(std::llround(fraction * static_cast<double>(size)), 1, size - 1);
}

/// The first samples of a separate shuffled order, so that the choice does not depend on epochs.
std::vector<int64_t> split_samples(int64_t size, const SplitChoice& choice) {
  const int64_t count = validation_count(size, choice.fraction);
  const uint64_t order = random_key(choice.seed, kSplitKey);
  std::vector<bool> is_set_aside(static_cast<size_t>(size));
  for (int64_t i = 0; i < count; ++i)
    is_set_aside[static_cast<size_t>(shuffled_index(order, 0, i, size))] = true;
  return side(is_set_aside, choice.split);
}

/// The first samples of each class in the same order.
std::vector<int64_t> split_classes(std::span<const int32_t> labels, const SplitChoice& choice) {
  const Places classes(labels);
  std::vector<int64_t> sizes(classes.size());
  for (const int32_t label : labels) ++sizes[classes.of(label)];
  if (labels.size() == classes.size()) {
    throw Error(ExitCode::data,
                "data.val_fraction: each class has one sample, and training needs it; add samples, or name "
                "those of validation in data.val");
  }
  std::vector<int64_t> left = class_shares(sizes, choice.fraction);
  const auto size = static_cast<int64_t>(labels.size());
  const uint64_t order = random_key(choice.seed, kSplitKey);
  std::vector<bool> is_set_aside(labels.size());
  for (int64_t i = 0; i < size; ++i) {
    const auto sample = static_cast<size_t>(shuffled_index(order, 0, i, size));
    int64_t& more = left[classes.of(labels[sample])];
    if (more == 0) continue;
    is_set_aside[sample] = true;
    --more;
  }
  return side(is_set_aside, choice.split);
}

std::vector<int64_t> split_label_sets(const SampleLabelSets& sets, const SplitChoice& choice) {
  const auto wanted =
      static_cast<double>(validation_count(static_cast<int64_t>(sets.size()), choice.fraction));
  const uint64_t order = random_key(choice.seed, kSplitKey);
  return side(iterative_stratification(sets, {choice.fraction, wanted}, order), choice.split);
}

std::vector<int64_t> split_groups(std::span<const int32_t> labels, std::span<const int32_t> groups,
                                  const SplitChoice& choice) {
  return split_groups(one_label_each(labels), groups, choice);
}

std::vector<int64_t> split_groups(const SampleLabelSets& sets, std::span<const int32_t> groups,
                                  const SplitChoice& choice) {
  constexpr int32_t kNoClass = -1;
  SampleLabelSets shared;
  for (size_t i = 0; i < sets.size(); ++i) shared.add(sets[i].empty() ? std::span(&kNoClass, 1) : sets[i]);
  GroupSplit all(shared, groups, choice.fraction);
  const auto is_taken = all.choose(random_key(choice.seed, kSplitKey));
  if (!is_taken) {
    throw Error(ExitCode::data,
                "data.split_by: no value of its column can be set aside for validation: training would lose "
                "all samples of a class; add samples, or name those of validation in data.val");
  }
  std::vector<bool> is_set_aside;
  for (const int32_t group : groups) is_set_aside.push_back((*is_taken)[all.group(group)]);
  return side(is_set_aside, choice.split);
}

}  // namespace trainer
