// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/matmul.h"

#include "core/layers/table.h"

namespace trainer {
namespace {

class MatMulLayer final : public Layer {
 public:
  size_t min_inputs() const override { return 2; }
  size_t max_inputs() const override { return 2; }

  void declare_parameters(Fields& fields) override {
    fields.add("transpose_a", &transpose_a_, "transpose the matrices of the first input");
    fields.add("transpose_b", &transpose_b_, "transpose the matrices of the second input");
  }

  /// A product of two whole batches would mix their samples, so both have to be sequences.
  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    for (const TensorId input : x) {
      const Shape shape = context.build.shape(input);
      if (shape.size() != 3)
        fail_at(origin,
                "expected sequences (N, T, K), got shape " + to_string(shape) + "; `reshape` gives them");
    }
    return {context.build.emit<MatMul>(x, transpose_a_, transpose_b_)};
  }

 private:
  bool transpose_a_ = false, transpose_b_ = false;
};

}  // namespace

Registered<Layer> matmul_layer() {
  return {"matmul", "the matrix product of its two inputs, sample by sample",
          [] { return std::make_unique<MatMulLayer>(); }};
}

}  // namespace trainer
