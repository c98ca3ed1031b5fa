// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/softmax.h"

#include "core/layers/table.h"

namespace trainer {
namespace {

class SoftmaxLayer final : public Layer {
 public:
  explicit SoftmaxLayer(bool log) : log_(log) {}
  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    return {context.build.emit<Softmax>({x[0]}, log_)};
  }

 private:
  bool log_;
};

}  // namespace

Registered<Layer> softmax_layer() {
  return {"softmax", "y = exp(x) / sum of exp(x) over the last dimension; for images over the channels",
          [] { return std::make_unique<SoftmaxLayer>(false); }};
}

Registered<Layer> log_softmax_layer() {
  return {"log_softmax", "the logarithm of softmax, over the last dimension; for images over the channels",
          [] { return std::make_unique<SoftmaxLayer>(true); }};
}

}  // namespace trainer
