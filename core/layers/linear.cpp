// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/linear.h"

#include <fmt/format.h>

#include "core/layers/initializer.h"
#include "core/layers/table.h"

namespace trainer {
namespace {

class LinearLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("out_features", &out_features_, "features of the output").required().dimension(1).bare();
    fields.add("bias", &bias_, "add a learned bias to each output feature");
    fields.add("transposed", &transposed_, "store the weight as (in, out), as GPT-2's Conv1D");
    fields.add(
        "weight_of", &weight_of_,
        "name of an earlier layer whose weight this one uses instead of its own, such as an embedding");
    initializer_.declare(fields);
  }

  const char* width_key() const override { return "out_features"; }
  std::string weight_of() const override { return weight_of_; }

  LayerKeys keys_for(const LayerSizes&, const LayerSizes& after) const override {
    return {{"out_features", std::to_string(after.output.back())}};
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const int64_t in = context.build.shape(x[0]).back();
    const TensorId w = weight(context, in);
    const TensorId b = bias_ ? context.parameter("bias", {out_features_}, initializer_.bias(in)) : kNone;
    return {context.build.emit<Linear>({x[0], w, b}, LinearFunction::none, transposed_)};
  }

 private:
  TensorId weight(LayerContext& context, int64_t in) const {
    const Shape shape = transposed_ ? Shape{in, out_features_} : Shape{out_features_, in};
    if (weight_of_.empty()) return context.parameter("weight", shape, initializer_.weight(in, out_features_));
    if (initializer_.name != Initializer{}.name)
      fail_at(origin_of("init"), fmt::format("the weight is that of '{}'; remove it", weight_of_));
    const TensorId id = context.parameter_of(weight_of_, "weight", origin_of("weight_of"));
    const Shape found = context.build.shape(id);
    if (found != shape) {
      fail_at(origin_of("weight_of"),
              fmt::format("the weight of '{}' is {}, and {} features to {} need {}", weight_of_,
                          to_string(found), in, out_features_, to_string(shape)));
    }
    return id;
  }

  int64_t out_features_ = 0;
  bool bias_ = true, transposed_ = false;
  std::string weight_of_;
  Initializer initializer_;
};

}  // namespace

Registered<Layer> linear_layer() {
  return {"linear", "y = x wT + bias over the last dimension, as PyTorch's Linear",
          [] { return std::make_unique<LinearLayer>(); }};
}

}  // namespace trainer
