// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/dtype.h"
#include "cuda/cudnn/descriptor.h"

namespace trainer::cuda::cudnn {

/// Attention with equal numbers of keys and queries, or its gradient, as cuDNN describes it: all of a type of
/// two bytes, sums f32. Only values, so that it can be sent to another process as bytes.
struct AttentionGraph {
  enum class Kind : int32_t { forward, backward };
  Kind kind = Kind::forward;
  DType dtype = DType::f16;
  int64_t samples = 0, positions = 0, heads = 0, kv_heads = 0, size = 0;  ///< size: of one head
  int64_t q_row = 0, kv_row = 0;  ///< elements from one position to the next; may include other heads
  bool causal = false;
  bool log_sum = false;        ///< forward: they are needed
  bool deterministic = false;  ///< backward: bitwise identical every time, up to compute capability 9

  /// The tensors' names when a plan is run. The three numbers are f32 on the host.
  enum Uid : int64_t {
    kQuery = 1,
    kKey,
    kValue,
    kResult,  ///< (samples, positions, heads, size), as its gradient
    kLogSum,  ///< f32 (samples, heads, positions): natural logarithms
    kResultGradient,
    kQueryGradient,  ///< gradients have the layout of their tensors
    kKeyGradient,
    kValueGradient,
    kProducts,   ///< backward, memory in between: f32, as kLogSum
    kQuerySums,  ///< and f32 (samples, heads, positions, size) if `sums_dq`, zeros before the run
    kScale,
    kMinusInfinity,
    kOne,
    kFirstVirtual
  };

  /// Whether blocks of keys add to the gradient of queries in memory, in an order that varies. If that is not
  /// allowed, cuDNN stores all scores instead.
  bool sums_dq() const { return kind == Kind::backward && !deterministic; }
  int64_t products_bytes() const { return samples * heads * positions * 4; }
  int64_t query_sums_bytes() const { return sums_dq() ? products_bytes() * size : 0; }
  /// "attention f16 16x1024 heads=12/12 …": equal if the graphs are.
  std::string text() const;
};

/// What a cuDNN of this number (91600 for 9.16.0) costs attention, and the remedy; nothing if it is new
/// enough.
std::optional<std::string> note_of_old_release(size_t release);

/// The finalised operation graph; `handle` is nullptr without a device. Throws Error if this release of
/// cuDNN is too old.
Descriptor operation_graph(const AttentionGraph& graph, cudnnHandle_t handle);

}  // namespace trainer::cuda::cudnn
