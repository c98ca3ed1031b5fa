// SPDX-License-Identifier: Apache-2.0
#include "core/data/iterative_stratification.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/data/order.h"
#include "core/data/places.h"

namespace trainer {
namespace {

class SetSplit {
 public:
  SetSplit(const SampleLabelSets& sets, const ValidationShare& share, uint64_t order)
      : sets_(sets),
        places_(sets.classes),
        order_(order),
        samples_of_(places_.size()),
        is_set_aside_(sets.size()),
        samples_{share.samples, static_cast<double>(sets.size()) - share.samples},
        all_(samples_) {
    const auto size = static_cast<int64_t>(sets.size());
    for (int64_t i = 0; i < size; ++i) {
      const auto sample = static_cast<size_t>(shuffled_index(order_, 0, i, size));
      for (const int32_t label : sets[sample]) samples_of_[places_.of(label)].push_back(sample);
    }
    for (const std::vector<size_t>& samples : samples_of_) {
      left_.push_back(static_cast<int64_t>(samples.size()));
      unplaced_.push_back(left_.back());
      const double of_class = share.fraction * static_cast<double>(left_.back());
      wanted_.push_back({of_class, static_cast<double>(left_.back()) - of_class});
    }
  }

  std::vector<bool> choose() {
    std::vector<bool> is_placed(sets_.size());
    std::set<std::pair<int64_t, size_t>> rarest;  // samples that have no side, and the class
    for (size_t c = 0; c < unplaced_.size(); ++c) rarest.emplace(unplaced_[c], c);
    while (!rarest.empty()) {
      const size_t c = rarest.begin()->second;
      for (const size_t sample : samples_of_[c]) {
        if (is_placed[sample]) continue;
        is_placed[sample] = true;
        for (const int32_t label : sets_[sample]) {
          const size_t other = places_.of(label);
          rarest.erase({unplaced_[other]--, other});
          if (other != c) rarest.emplace(unplaced_[other], other);
        }
        place(sample, wanted_[c]);
      }
      rarest.erase({unplaced_[c], c});
    }
    const auto size = static_cast<int64_t>(sets_.size());
    for (int64_t i = 0; i < size; ++i) {
      const auto sample = static_cast<size_t>(shuffled_index(order_, 0, i, size));
      if (!is_placed[sample]) place(sample, samples_);
    }
    if (!has_any_) set_one_aside();
    return is_set_aside_;
  }

 private:
  /// How many more validation and training want.
  struct Wanted {
    double val = 0, train = 0;
  };

  /// A class whose wishes are less than a sample apart does not decide: else a class of few samples would
  /// always go to training, and with them what else these samples show. The side decides that has less of its
  /// share of all samples.
  bool wants_validation(const Wanted& wanted) const {
    if (std::abs(wanted.val - wanted.train) >= 1) return wanted.val > wanted.train;
    return samples_.val * all_.train > samples_.train * all_.val;
  }

  void place(size_t sample, const Wanted& wanted) {
    if (wants_validation(wanted) && leaves_each_class(sample)) return set_aside(sample);
    for (const int32_t label : sets_[sample]) --wanted_[places_.of(label)].train;
    --samples_.train;
  }

  void set_aside(size_t sample) {
    is_set_aside_[sample] = has_any_ = true;
    for (const int32_t label : sets_[sample]) {
      --wanted_[places_.of(label)].val;
      --left_[places_.of(label)];
    }
    --samples_.val;
  }

  bool leaves_each_class(size_t sample) const {
    return std::ranges::all_of(sets_[sample], [&](int32_t label) { return left_[places_.of(label)] > 1; });
  }

  /// The first sample in the order that training can spare, if all shares are less than half a sample.
  void set_one_aside() {
    const auto size = static_cast<int64_t>(sets_.size());
    for (int64_t i = 0; i < size; ++i) {
      const auto sample = static_cast<size_t>(shuffled_index(order_, 0, i, size));
      if (leaves_each_class(sample)) return set_aside(sample);
    }
    throw Error(
        ExitCode::data,
        "data.val_fraction: each sample is the only one of a class, and training needs it; add samples, "
        "or name those of validation in data.val");
  }

  const SampleLabelSets& sets_;
  Places places_;
  uint64_t order_;
  std::vector<std::vector<size_t>> samples_of_;  // each class, in the order
  std::vector<bool> is_set_aside_;
  Wanted samples_, all_;                  // now, and at the beginning
  std::vector<Wanted> wanted_;            // of each class
  std::vector<int64_t> left_, unplaced_;  // of each class: not set aside; without a side
  bool has_any_ = false;
};

}  // namespace

std::vector<bool> iterative_stratification(const SampleLabelSets& sets, const ValidationShare& share,
                                           uint64_t order) {
  return SetSplit(sets, share, order).choose();
}

}  // namespace trainer
