// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operation.h"

namespace trainer {

/// The order of inputs that determine a token's position: first + t - start[n, t], which is a row of a table.
namespace position_input {
enum : size_t {
  kX,
  kTable,          ///< f32 (P, features)
  kFirstPosition,  ///< i32 (1): position of each sequence's first token; absent: 0
  kStart,          ///< i32 (N, T): where each token's document begins; absent: 0
  kInputs
};
}  // namespace position_input

/// Throws std::invalid_argument unless first and start fit tokens (N, T), of which P positions have a row.
/// The caller that binds `first` ensures that first + T is at most P too; it is not checked at run time.
void expect_positions(const TensorSpec& first, const TensorSpec& start, const Shape& tokens,
                      int64_t positions);

/// x (N, T, E), table (P, E), first, start -> y = x + the table's row for each token's position.
class AddPositions final : public Operation {
 public:
  enum : size_t { kY };

  std::string_view name() const override { return "add_positions"; }
  std::optional<size_t> input_count() const override { return position_input::kInputs; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t input) const override {
    return input == position_input::kX ? InputType::widest : InputType::f32;
  }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  bool in_place(size_t input, size_t) const override { return input == position_input::kX; }
  bool is_by_position(std::span<const TensorSpec>, std::span<const TensorSpec>) const override {
    return true;
  }
  std::optional<size_t> table_input() const override { return position_input::kTable; }
  std::vector<ChannelLink> channel_links(std::span<const TensorSpec> inputs,
                                         std::span<const TensorSpec> outputs) const override;
};

/// dy (N, T, E), first, start -> the gradient of the table (P, E), f32: the sum of dy over all tokens at each
/// position, in their order.
class AddPositionsBackward final : public Operation {
 public:
  enum : size_t { kDy, kFirstPosition, kStart, kInputs };
  enum : size_t { kDtable };

  explicit AddPositionsBackward(int64_t p) : positions(p) {}
  std::string_view name() const override { return "add_positions_backward"; }
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override { visit("positions", positions, {.hidden = true}); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  const int64_t positions;
};

/// sin(p / 10000^(2i / E)) and the cosine as features 2i and 2i + 1 of position p (Vaswani et al., "Attention
/// Is All You Need", 2017): the values of a table (positions, features).
std::vector<double> sinusoidal_table(int64_t positions, int64_t features);

}  // namespace trainer
