// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"
#include "core/graph/ops/elementwise.h"

namespace trainer {

namespace elementwise {

/// y = f(gate) * x: a gated linear unit (Shazeer, "GLU Variants Improve Transformer", 2020) if gate and x are
/// products of one input. With f = silu it is SwiGLU.
template <class F>
struct Gate {
  F f;
  template <class T>
  TRAINER_HD T operator()(T gate, T x) const {
    return f(gate) * x;
  }
  /// dx = dy * f(gate), dgate = dy * x * f'(gate)
  template <class T>
  TRAINER_HD void gradient(T dy, T gate, T x, T& dgate, T& dx) const {
    const T opened = f(gate);
    dx = dy * opened;
    dgate = f.gradient(F::kGradientReads == Reads::y ? opened : gate, dy * x);
  }
};
template <class F>
Gate(F) -> Gate<F>;  // clang deduces it for aggregates from release 17 on

}  // namespace elementwise

/// y = f(gate) * x, element by element, both of one shape.
class Gated final : public Operation {
 public:
  enum : size_t { kGate, kX, kInputs };
  enum : size_t { kY };

  explicit Gated(elementwise::Function f);
  std::string_view name() const override { return name_; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::widest; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  bool in_place(size_t, size_t) const override { return true; }
  bool is_by_position(std::span<const TensorSpec>, std::span<const TensorSpec>) const override {
    return true;
  }
  std::optional<FeatureCut> feature_cut(std::span<const TensorSpec>) const override {
    return {{{kGate, kX}}};
  }
  std::vector<size_t> row_inputs(std::span<const TensorSpec>) const override { return {kGate, kX}; }
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec>,
                                         std::span<const TensorSpec> outputs) const override {
    return links_of_elements({kGate, kX}, outputs[kY].shape);
  }

  const elementwise::Function function;

 private:
  std::string name_;
};

/// The gradients of both inputs in one walk over dy, gate and x; that of x may be absent.
class GatedBackward final : public Operation {
 public:
  enum : size_t { kDy, kGate, kX, kInputs };
  enum : size_t { kDgate, kDx };

  explicit GatedBackward(elementwise::Function f);
  std::string_view name() const override { return name_; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  bool in_place(size_t, size_t) const override { return true; }

  const elementwise::Function function;

 private:
  std::string name_;
};

}  // namespace trainer
