// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/stochastic_depth.h"

#include <fmt/format.h>

#include <optional>

#include "core/layers/table.h"

namespace trainer {
namespace {

class StochasticDepthLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("p", &p_, "drop probability of the branch").required().at_least(0).below(1).bare();
    fields
        .add("block", &block_,
             "index of this block, for a probability that grows with depth: p * block / blocks")
        .dimension(0);
    fields.add("blocks", &blocks_, "index of the block whose drop probability is p").dimension(1);
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const double p = p_ * share();
    if (!context.training || p == 0) return {x[0]};
    const DropoutSettings settings{.p = p,
                                   .key = random_key(context.seed, "stochastic_depth " + context.name)};
    return {context.build.emit<StochasticDepth>({x[0], context.sample_index, context.step}, settings)};
  }

 private:
  double share() const {
    if (block_.has_value() != blocks_.has_value())
      fail_at(origin_of(block_ ? "block" : "blocks"),
              fmt::format("needs {} beside it; write both, or p alone", block_ ? "blocks" : "block"));
    if (!block_) return 1;
    if (*block_ > *blocks_)
      fail_at(origin_of("block"), fmt::format("must be at most blocks, {}, got {}", *blocks_, *block_));
    return static_cast<double>(*block_) / static_cast<double>(*blocks_);
  }

  double p_ = 0;
  std::optional<int64_t> block_, blocks_;
};

}  // namespace

Registered<Layer> stochastic_depth_layer() {
  return {"stochastic_depth",
          "stochastic depth: drops the whole branch for random samples in training, and scales the others by "
          "1 / (1 - p); place it before an add",
          [] { return std::make_unique<StochasticDepthLayer>(); }};
}

}  // namespace trainer
