// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/dtype.h"
#include "core/graph/ops/attention.h"
#include "cpu/attention/kernels.h"

namespace trainer::cpu::attention {

/// Keys of a block; its rows and scores stay in a core's cache.
constexpr int64_t kKeyBlock = 128;

/// One use of attention. Query heads that read the same keys are a group, and the queries of all its heads
/// are the rows that meet these keys: row r is query r % queries of the group's head r / queries.
struct Use {
  AttentionSettings settings;
  AttentionSizes sizes;
  DType dtype;
  const Kernels* kernels;
  int threads;

  int64_t group() const { return sizes.heads / sizes.kv_heads; }
  int64_t rows() const { return group() * sizes.queries; }
  int64_t panel() const { return 2 * kernels->lanes; }
  /// Floats of a row in a block: whole vectors, zero after the head's own.
  int64_t width() const { return (sizes.size + kernels->lanes - 1) / kernels->lanes * kernels->lanes; }
};

/// The kernels for this processor, of those that oneDNN may use, too.
const Kernels& best_kernels();

/// Addresses of a run's inputs; absent ones are null.
struct Given {
  const void *q, *k, *v;  ///< packed: all the same
  const int32_t *first, *start, *sample, *step;
};

/// Further inputs of the backward operation.
struct GivenBackward {
  Given forward;
  const void *dy, *y;
  const float* log_sum;
};

/// Addresses of gradients; null: not needed. Packed: all the same.
struct Gradients {
  void *dq, *dk, *dv;
};

/// Both work on blocks of queries and of keys (Dao et al., "FlashAttention: Fast and Memory-Efficient Exact
/// Attention with IO-Awareness", 2022): memory grows with the number of queries and keys, not with their
/// product. Work is assigned by number, not to a thread.
class Forward {
 public:
  virtual ~Forward() = default;
  virtual int64_t workspace_floats() const = 0;
  /// log_sum may be null.
  virtual void run(const Given& given, void* y, float* log_sum, float* workspace) const = 0;
};
std::unique_ptr<Forward> make_forward(const Use& use);

/// Each head's gradients of keys and values are summed by one owner, for a chunk of its queries. If heads are
/// fewer than threads there are several chunks, and their sums are added up in order. So their bits depend
/// only on the number of threads.
class Backward {
 public:
  virtual ~Backward() = default;
  virtual int64_t workspace_floats() const = 0;
  virtual void run(const GivenBackward& given, const Gradients& gradients, float* workspace) const = 0;
};
std::unique_ptr<Backward> make_backward(const Use& use);

}  // namespace trainer::cpu::attention
