// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/embedding.h"

#include "core/layers/initializer.h"
#include "core/layers/table.h"

namespace trainer {
namespace {

class EmbeddingLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("vocab_size", &vocab_size_, "number of rows of the table; token ids must be smaller")
        .required()
        .dimension(1);
    fields.add("features", &features_, "features of each token").required().dimension(1);
    initializer_.declare(fields);
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    return {
        context.build.emit<Embedding>({x[0], context.parameter("weight", {vocab_size_, features_},
                                                               initializer_.table(vocab_size_, features_))})};
  }

 private:
  int64_t vocab_size_ = 0, features_ = 0;
  Initializer initializer_;
};

}  // namespace

Registered<Layer> embedding_layer() {
  return {"embedding", "looks up a learned vector for each token id: (N, T) to (N, T, features)",
          [] { return std::make_unique<EmbeddingLayer>(); }};
}

}  // namespace trainer
