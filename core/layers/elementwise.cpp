// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/elementwise.h"

#include "core/graph/ops/unary.h"
#include "core/layers/table.h"

namespace trainer {
namespace {

/// The layer of one element-wise function; its parameters are the functor's.
template <class Functor>
class ElementwiseLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override { functor_.declare(fields); }
  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    return {context.build.emit<Unary>({x[0]}, elementwise::Function(functor_))};
  }

 private:
  Functor functor_;
};

template <class... Functors>
void add_all(Registry<Layer>& table, const std::variant<Functors...>*) {
  (table.push_back(
       {Functors::kName, Functors::kHelp, [] { return std::make_unique<ElementwiseLayer<Functors>>(); }}),
   ...);
}

}  // namespace

void add_elementwise_layers(Registry<Layer>& table) {
  add_all(table, static_cast<const elementwise::Function*>(nullptr));
}

}  // namespace trainer
