// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/transforms/table.h"
#include "core/data/images/transforms/tones.h"

namespace trainer {
namespace {

/// An operation of the policies as a step of its own.
class SpreadTones : public Transform {
 public:
  explicit SpreadTones(void (*spread)(Image&)) : spread_(spread) {}

  void declare(Fields& fields) override {
    fields.add("p", &p_, "probability; 1: always, also allowed in data.eval_transform")
        .at_least(0)
        .at_most(1)
        .bare();
  }
  bool is_random() const override { return p_ < 1; }
  MaskEffect mask_effect() const override { return MaskEffect::kept; }

  void apply(Image& image, RandomStream& random) const override {
    if (!is_random() || static_cast<double>(random.next_uniform()) < p_) spread_(image);
  }

 private:
  void (*spread_)(Image&);
  double p_ = 1;
};

}  // namespace

std::unique_ptr<Transform> make_autocontrast() {
  return std::make_unique<SpreadTones>(autocontrast);
}

std::unique_ptr<Transform> make_equalize() {
  return std::make_unique<SpreadTones>(equalize);
}

}  // namespace trainer
