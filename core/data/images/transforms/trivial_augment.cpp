// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/transforms/augment_ops.h"
#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

/// Müller and Hutter, "TrivialAugment: tuning-free yet state-of-the-art data augmentation" (2021), with the
/// wide range of strengths.
class TrivialAugment : public Transform {
 public:
  void declare(Fields& fields) override {
    fields.add("num_magnitude_bins", &bins_, "number of magnitudes to draw from").at_least(2).at_most(1000);
  }
  bool is_random() const override { return true; }
  MaskEffect mask_effect() const override { return MaskEffect::moved; }

  void apply(Image& image, RandomStream& random) const override {
    const AugmentOp& op = augment_ops()[static_cast<size_t>(random.next_below(kDrawnAugmentOps))];
    const int64_t level = random.next_below(bins_);
    const double magnitude = op.wide_magnitude({level, bins_}, image.height, image.width);
    const bool negative = op.is_signed && random.next_below(2) == 1;
    op.apply(image, negative ? -magnitude : magnitude);
  }

 private:
  int64_t bins_ = 31;
};

}  // namespace

std::unique_ptr<Transform> make_trivial_augment() {
  return std::make_unique<TrivialAugment>();
}

}  // namespace trainer
