// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/transforms/table.h"
#include "core/data/images/transforms/warp.h"

namespace trainer {
namespace {

class Rotation : public Transform {
 public:
  void declare(Fields& fields) override {
    fields.add("degrees", &degrees_, "d: rotates by -d to d degrees")
        .at_least(0)
        .at_most(180)
        .required()
        .bare();
  }
  bool is_random() const override { return true; }
  MaskEffect mask_effect() const override { return MaskEffect::moved; }

  void apply(Image& image, RandomStream& random) const override {
    const double turn = degrees_ * (2 * static_cast<double>(random.next_uniform()) - 1);
    warp(image, rotation_by(turn), Sampling::bilinear);
  }

 private:
  double degrees_ = 0;
};

}  // namespace

std::unique_ptr<Transform> make_rotation() {
  return std::make_unique<Rotation>();
}

}  // namespace trainer
