// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/transforms/auto_augment.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

class AutoAugment : public Transform {
 public:
  void declare(Fields& fields) override {
    std::vector<std::string> names;
    for (const NamedAutoAugmentPolicy& policy : auto_augment_policies()) names.emplace_back(policy.name);
    fields.add("policy", &policy_, "data set that the pairs of operations were learned for")
        .one_of(names)
        .bare();
  }
  bool is_random() const override { return true; }
  MaskEffect mask_effect() const override { return MaskEffect::moved; }

  void apply(Image& image, RandomStream& random) const override {
    const auto& policies = auto_augment_policies();
    const auto chosen = std::ranges::find(policies, std::string_view(policy_), &NamedAutoAugmentPolicy::name);
    const auto pairs = static_cast<int64_t>(chosen->pairs.size());
    for (const AutoAugmentStep& step : chosen->pairs[static_cast<size_t>(random.next_below(pairs))]) {
      const bool happens = static_cast<double>(random.next_uniform()) < step.p;
      const bool negative = random.next_below(2) == 1;
      if (!happens) continue;
      const AugmentOp& op = augment_op(step.op);
      const double magnitude = op.magnitude({step.level, kAutoAugmentLevels}, image.height, image.width);
      op.apply(image, op.is_signed && negative ? -magnitude : magnitude);
    }
  }

 private:
  std::string policy_ = "imagenet";
};

}  // namespace

std::unique_ptr<Transform> make_auto_augment() {
  return std::make_unique<AutoAugment>();
}

}  // namespace trainer
