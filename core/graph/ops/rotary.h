// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"
#include "core/graph/ops/positions.h"

namespace trainer {

/// Which features of a row of heads are turned. Heads are adjacent; those after the first `heads` stay.
struct RotarySettings {
  int64_t heads = 1;         ///< that are turned
  int64_t size = 2;          ///< features of a head
  int64_t features = 2;      ///< the first of them that are turned, an even number
  bool interleaved = false;  ///< pairs are (2i, 2i + 1); else (i, i + features / 2), as Llama's are
  bool inverse = false;      ///< turns back: the gradient

  void describe(AttributeVisitor& visit) const;
};

/// Rotary position embedding (Su et al., "RoFormer", 2021): each pair of features of a head is turned by an
/// angle that grows with its token's position. x (N, T, W), the table of rotary_table (P, features), first
/// position and starts of documents as in AddPositions -> y (N, T, W).
class Rotary final : public Operation {
 public:
  enum : size_t { kY };

  explicit Rotary(const RotarySettings& r) : settings(r) {}
  std::string_view name() const override { return "rotary"; }
  std::optional<size_t> input_count() const override { return position_input::kInputs; }
  void describe(AttributeVisitor& visit) const override { settings.describe(visit); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t input) const override {
    return input == position_input::kX ? InputType::widest : InputType::f32;
  }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t) const override { return input == position_input::kX; }
  bool is_by_position(std::span<const TensorSpec>, std::span<const TensorSpec>) const override {
    return true;
  }
  std::optional<size_t> table_input() const override { return position_input::kTable; }
  std::optional<FeatureCut> feature_cut(std::span<const TensorSpec>) const override {
    return {{{position_input::kX}}};
  }
  std::shared_ptr<const Operation> on_part(const SharedPart& part) const override;

  const RotarySettings settings;
};

/// For each position the cosines of features / 2 angles, then their sines; angle i of position p is
/// p / theta^(2i / features), computed in double.
std::vector<double> rotary_table(double theta, int64_t features, int64_t positions);

}  // namespace trainer
