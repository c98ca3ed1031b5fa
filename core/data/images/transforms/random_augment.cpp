// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/transforms/augment_ops.h"
#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

/// RandAugment: operations drawn with replacement, all of one magnitude.
class RandomAugment : public Transform {
 public:
  void declare(Fields& fields) override {
    fields.add("num_ops", &num_ops_, "number of operations").at_least(1).at_most(100);
    fields.add("magnitude", &magnitude_, "magnitude of the operations")
        .at_least(0)
        .at_most(kRandAugmentLevels - 1);
  }
  bool is_random() const override { return true; }
  MaskEffect mask_effect() const override { return MaskEffect::moved; }

  void apply(Image& image, RandomStream& random) const override {
    for (int64_t i = 0; i < num_ops_; ++i) {
      const AugmentOp& op = augment_ops()[static_cast<size_t>(random.next_below(kDrawnAugmentOps))];
      const double magnitude = op.magnitude({magnitude_, kRandAugmentLevels}, image.height, image.width);
      const bool negative = op.is_signed && random.next_below(2) == 1;
      op.apply(image, negative ? -magnitude : magnitude);
    }
  }

 private:
  int64_t num_ops_ = 2, magnitude_ = 9;
};

}  // namespace

std::unique_ptr<Transform> make_random_augment() {
  return std::make_unique<RandomAugment>();
}

}  // namespace trainer
