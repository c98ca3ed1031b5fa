// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/host_device.h"
#include "core/graph/operation.h"
#include "core/graph/ops/dropout.h"

namespace trainer {

/// The keys that a query sees, and the computation of its scores. Heads are adjacent in the last dimension,
/// so that sequences have rank 3: (N, T, heads * size).
struct AttentionSettings {
  int64_t heads = 1;
  int64_t kv_heads = 1;  ///< of keys and values; query head h reads head h / (heads / kv_heads)
  bool causal = false;   ///< a query sees the keys up to its own position
  int64_t window = 0;    ///< and of these the last `window`, for causal only; 0: all
  double scale = 0;      ///< scores are scale * q . k; 0: 1 / sqrt(size)
  std::optional<DropoutSettings> dropout = {};  ///< of the probabilities
  std::optional<Along> along = {};  ///< the heads are some of those that these ranks share, in their order
  int64_t first_head = 0;           ///< of these, among those of all ranks; a device sets it

  void describe(AttributeVisitor& visit) const;
  /// The factor of q . k, for heads of this size.
  double factor(int64_t size) const;
  /// The keys [first, end) that the query at `position` sees of `keys`; those before `start` are of another
  /// document.
  struct Keys {
    int64_t first, end;
  };
  TRAINER_HD Keys keys_of(int64_t position, int64_t keys, int64_t start) const {
    const int64_t end = causal && position + 1 < keys ? position + 1 : keys;
    const int64_t oldest = window > 0 && position + 1 > window ? position + 1 - window : 0;
    return {oldest > start ? oldest : start, end};
  }
  /// The element of the probabilities of one sample that dropout draws for; `head` counts those of all ranks.
  TRAINER_HD static int64_t element(int64_t head, int64_t query, int64_t key, int64_t queries, int64_t keys) {
    return (head * queries + query) * keys + key;
  }
};

/// The order of the operations' inputs. `q` alone, packed, holds queries, keys and values side by side:
/// (N, T, (heads + 2 * kv_heads) * size); `k` and `v` are then absent.
namespace attention_input {
constexpr size_t kQ = 0;  ///< (N, T, heads * size)
constexpr size_t kK = 1;  ///< (N, S, kv_heads * size)
constexpr size_t kV = 2;
constexpr size_t kFirstPosition =
    3;                         ///< i32 (1): position of the first query among the keys; absent: 0, and S = T
constexpr size_t kStart = 4;   ///< i32 (N, T): the first key of each query's document; absent: 0
constexpr size_t kSample = 5;  ///< i32 (N), for dropout: place in the global batch
constexpr size_t kStep = 6;    ///< i32 (1), for dropout
constexpr size_t kInputCount = 7;
constexpr size_t kDy = kInputCount;  ///< of the backward operation: the gradient of y, y and the log-sum-exp
constexpr size_t kY = kInputCount + 1;
constexpr size_t kLogSum = kInputCount + 2;
}  // namespace attention_input

/// Sizes of one use, from the shapes of q and k; k is empty if q is packed.
struct AttentionSizes {
  AttentionSizes(const AttentionSettings& settings, const Shape& q, const Shape& k);
  int64_t samples, queries, keys;
  int64_t heads, kv_heads, size;  ///< size: of one head
  bool packed;

  /// Elements between a tensor's rows, and the offsets of the first key and the first value in their tensor's
  /// row.
  int64_t q_row() const { return packed ? (heads + 2 * kv_heads) * size : heads * size; }
  int64_t kv_row() const { return packed ? q_row() : kv_heads * size; }
  int64_t k_begin() const { return packed ? heads * size : 0; }
  int64_t v_begin() const { return packed ? (heads + kv_heads) * size : 0; }
  /// Index of the logarithm of a score row's sum.
  int64_t log_sum_at(int64_t sample, int64_t head, int64_t query) const {
    return (sample * heads + head) * queries + query;
  }
};

/// y = dropout(softmax(scale * q kT)) v for each sample and head (Vaswani et al., "Attention Is All You
/// Need", 2017) -> y (N, T, heads * size) and the natural logarithm of each row's sum of exponentials, f32
/// (N, heads, T). The gradient needs only these besides the inputs. A query that sees no key gives zeros and
/// minus infinity.
class Attention final : public Operation {
 public:
  enum : size_t { kY, kLogSum };

  explicit Attention(const AttentionSettings& r) : settings(r) {}
  std::string_view name() const override { return "attention"; }
  std::optional<size_t> input_count() const override { return attention_input::kInputCount; }
  void describe(AttributeVisitor& visit) const override { settings.describe(visit); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  InputType input_type(size_t) const override { return InputType::low; }
  std::vector<TensorId> gradient(const Backward& backward) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool is_by_position(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  std::optional<FeatureCut> feature_cut(std::span<const TensorSpec> inputs) const override;
  std::shared_ptr<const Operation> on_part(const SharedPart& part) const override;

  const AttentionSettings settings;
};

/// The inputs of attention, then dy, y and the log-sum-exp -> dq, dk, dv; of packed inputs dq alone, packed.
class AttentionBackward final : public Operation {
 public:
  enum : size_t { kDq, kDk, kDv };

  explicit AttentionBackward(const AttentionSettings& r) : settings(r) {}
  std::string_view name() const override { return "attention_backward"; }
  std::optional<size_t> input_count() const override { return attention_input::kLogSum + 1; }
  void describe(AttributeVisitor& visit) const override { settings.describe(visit); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;

  const AttentionSettings settings;
};

}  // namespace trainer
