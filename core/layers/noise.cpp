// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/noise.h"

#include <optional>

#include "core/graph/names.h"
#include "core/graph/pixel_numbers.h"
#include "core/layers/table.h"

namespace trainer {
namespace {

/// Training draws by step and sample of the global batch, as dropout does. Evaluation draws by the sample's
/// number in its split, without the run's seed: all evaluations of a network, and of others, see the same
/// noise.
class NoiseLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields
        .add("gaussian", &std_,
             "standard deviation of a normal number added to each value, where black is 0 and white 255, "
             "whatever "
             "data.augment makes of these")
        .at_least(0)
        .at_most(255)
        .bare();
    fields
        .add("salt_and_pepper", &share_,
             "share of the values that become black or white, after the normal numbers are added")
        .at_least(0)
        .at_most(1);
    fields.add("clip", &clips_,
               "cut sums below black and above white, as image files do; false: keep them as they are");
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    if (x[0] != context.build.program().find(input_name::kImages))
      fail_at(
          origin,
          "adds noise to the images that the network reads, and to nothing else; make it the first layer, "
          "or write inputs: [input]");
    if (!std_ && !share_) fail_at(origin, "adds nothing; write gaussian, salt_and_pepper or both");
    if (context.pixels == nullptr) return {x[0]};
    TensorId y = x[0];
    if (std_.value_or(0) > 0) y = add(context, y, noise::Gaussian{.std = *std_, .clips = clips_}, "gaussian");
    if (share_.value_or(0) > 0)
      y = add(context, y, noise::SaltAndPepper{.share = *share_}, "salt_and_pepper");
    return {y};
  }

 private:
  static TensorId add(LayerContext& context, TensorId x, const noise::Rule& rule, const std::string& what) {
    Builder& build = context.build;
    const PixelConstants numbers = pixel_constants(build.program(), build.entry().name, *context.pixels);
    const std::string consumer =
        (context.training ? "noise " : "noise of evaluation ") + what + " " + context.name;
    const uint64_t key = random_key(context.training ? context.seed : 0, consumer);
    const TensorId step = context.training ? context.step : kNone;
    return build.emit<Noise>({x, context.sample_index, step, numbers.scale, numbers.offset}, rule, key);
  }

  std::optional<double> std_, share_;
  bool clips_ = true;
};

}  // namespace

Registered<Layer> noise_layer() {
  return {"noise",
          "noise in the images that the network reads, in training and evaluation; the loss compares with "
          "the images "
          "without it, and `predict` adds none",
          [] { return std::make_unique<NoiseLayer>(); }};
}

}  // namespace trainer
