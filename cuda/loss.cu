// SPDX-License-Identifier: Apache-2.0
#include "cuda/loss.h"

#include "core/graph/ops/cross_entropy.h"
#include "cuda/last_block.h"
#include "cuda/logit_row.h"

namespace trainer::cuda {
namespace {

__device__ inline SoftmaxTarget target(const LogitRows& rows, int64_t row) {
  const int32_t own = rows.label[row];
  if (rows.other == nullptr) return {own, own, 1.0f};
  return {own, rows.other[row], rows.mix_weight[row]};
}

template <class Team, class T>
struct RowLoss {
  double smoothing;
  SoftmaxOfRows kept;
  __device__ double operator()(const LogitRows& rows, const T* logits, int64_t index, bool counts) const {
    const T* row = logits + index * rows.step;
    double mean = 0;
    const Softmax of_row = softmax<Team>(row, rows.classes, [&](int64_t, const Octet& x, int count) {
      if (smoothing == 0) return;
      for (int i = 0; i < count; ++i) mean += x.v[i];
    });
    keep<Team>(of_row, kept, index);
    if (!counts) return 0;
    if (smoothing > 0) mean = Team::sum(mean) / static_cast<double>(rows.classes);
    const SoftmaxTarget t = target(rows, index);
    return t.loss(::log(static_cast<double>(of_row.sum)) + of_row.largest,
                  static_cast<double>(to_float(row[t.label])), static_cast<double>(to_float(row[t.other])),
                  mean, smoothing);
  }
};

/// 1 if the label is among the k largest; of equal logits the lower class comes first.
template <class Team, class T>
struct RowHit {
  int64_t k;
  int32_t ignored;
  __device__ double operator()(const LogitRows& rows, const T* logits, int64_t index, bool counts) const {
    const T* row = logits + index * rows.step;
    const int32_t label = rows.label[index];
    if (!counts || label == ignored) return 0;
    const float own = to_float(row[label]);
    int before = 0;
    visit_logits<Team>(row, rows.classes, [&](int64_t first, const Octet& x, int count) {
#pragma unroll
      for (int i = 0; i < Octet::kSize; ++i)
        before += i < count && (x.v[i] > own || (x.v[i] == own && first + i < label));
    });
    return Team::sum(before) < k && own == own ? 1.0 : 0.0;
  }
};

/// The mean over positions of the weighted sums of term(row, whether it counts): of a block's rows, then of
/// the blocks. A sample of weight 0 does not count, even with NaN; its terms are 0.
template <class Team, class T, class Term>
__global__ void sum_rows(LogitRows rows, const T* logits, Term term, double* partial, unsigned* counter,
                         float* total) {
  wait_for_previous_kernels();
  double sum = 0;
  const int64_t first = blockIdx.x * kRowsOfBlock<Team>, end = first + kRowsOfBlock<Team>;
  for (int64_t row = first + threadIdx.x / Team::kSize; row < end && row < rows.samples * rows.positions;
       row += Team::kTeams) {
    const float weight = rows.weight[row / rows.positions];
    sum += weight * term(rows, logits, row, weight != 0);
  }
  sum = block_sum(Team::member() == 0 ? sum : 0.0);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
  if (!is_last(counter, gridDim.x)) return;
  sum = 0;
  for (int64_t i = threadIdx.x; i < gridDim.x; i += kThreads) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total = static_cast<float>(sum / static_cast<double>(rows.positions));
}

/// Gaps between rows become zero. Not __restrict__: dx may be the logits.
template <class Team, class T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    gradient_rows(LogitRows rows, OwnClasses own, const T* logits, KeptSoftmax kept, float smoothing,
                  const float* dloss, T* dx, int64_t dx_step) {
  wait_for_previous_kernels();
  constexpr int kAtOnce = sizeof(T) == 2 ? 6 : 4;
  const int64_t index = Team::row();
  if (index >= rows.samples * rows.positions) return;
  const T* row = logits + index * rows.step;
  T* out = dx + index * dx_step;
  const float largest = kept.largest[index], inverse = 1.0f / kept.sum[index];
  SoftmaxTarget t = target(rows, index);
  t.label -= static_cast<int32_t>(own.first), t.other -= static_cast<int32_t>(own.first);
  const float scale = *dloss / static_cast<float>(rows.positions) * rows.weight[index / rows.positions];
  const float even = smoothing / static_cast<float>(own.all);
  visit_logits<Team, kAtOnce>(row, own.valid, [&](int64_t first, const Octet& x, int count) {
    Octet d;
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i) {
      const float p = math::exp(x.v[i] - largest) * inverse;
      d.v[i] = scale * t.gradient(static_cast<int32_t>(first) + i, p, even, smoothing);
    }
    store(d, count, out + first);
  });
  // Padding, and the gap that follows all rows but the last.
  const int64_t end = index + 1 == rows.samples * rows.positions ? rows.classes : dx_step;
  for (int64_t i = own.valid + Team::member(); i < end; i += Team::kSize) put(0.0f, out[i]);
}

/// What a rank finds in its part of each row.
template <class Team, class T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    sum_logits(LogitRows rows, OwnClasses own, const T* logits, const float* class_weights, float* sums) {
  wait_for_previous_kernels();
  const int64_t index = Team::row();
  if (index >= rows.samples * rows.positions) return;
  const T* row = logits + index * rows.step;
  double all = 0;
  const Softmax of_row = softmax<Team>(row, own.valid, [&](int64_t first, const Octet& x, int count) {
    for (int i = 0; i < count; ++i) {
      const double weight = class_weights == nullptr ? 1.0 : class_weights[own.first + first + i];
      all += weight * x.v[i];
    }
  });
  all = Team::sum(all);
  if (Team::member() != 0) return;
  const auto logit = [&](int64_t label) {
    const int64_t c = label - own.first;
    return c >= 0 && c < own.valid ? to_float(row[c]) : 0.0f;
  };
  float* const to = sums + index * LogitSum::kFields;
  to[LogitSum::kLargest] = own.valid == 0 ? LogitSum::kNone : of_row.largest;
  to[LogitSum::kExpSum] = of_row.sum;
  to[LogitSum::kOwn] = logit(rows.label[index]);
  to[LogitSum::kOther] = rows.other == nullptr ? to[LogitSum::kOwn] : logit(rows.other[index]);
  to[LogitSum::kAll] = static_cast<float>(all);
}

template <class Team, class T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    count_classes_before(LogitRows rows, OwnClasses own, int64_t ranks, const T* logits, const float* sums,
                         float* counts) {
  wait_for_previous_kernels();
  const int64_t index = Team::row();
  if (index >= rows.samples * rows.positions) return;
  const float of_label = of_all_ranks(sums, rows.samples * rows.positions, ranks, index).own;
  const int64_t label = rows.label[index] - own.first;
  int before = 0;
  visit_logits<Team>(logits + index * rows.step, own.valid, [&](int64_t first, const Octet& x, int count) {
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i)
      before += i < count && (x.v[i] > of_label || (x.v[i] == of_label && first + i < label));
  });
  before = Team::sum(before);
  if (Team::member() == 0) counts[index] = static_cast<float>(before);
}

/// 1 if fewer than k classes of all ranks come before the label.
struct HitOfRanks {
  int64_t ranks, k;
  int32_t ignored;
  const float* before;
  __device__ double operator()(const LogitRows& rows, const float* sums, int64_t index, bool counts) const {
    const float of_label = of_all_ranks(sums, rows.samples * rows.positions, ranks, index).own;
    const bool is_hit = counts && rows.label[index] != ignored && of_label == of_label &&
                        before[index] < static_cast<float>(k);
    return is_hit ? 1.0 : 0.0;
  }
};

/// The loss of a row from all ranks' sums of it.
template <class Team>
struct LossOfRanks {
  int64_t ranks;
  double smoothing;
  SoftmaxOfRows kept;
  __device__ double operator()(const LogitRows& rows, const float* sums, int64_t index, bool counts) const {
    const LogitSum whole = of_all_ranks(sums, rows.samples * rows.positions, ranks, index);
    keep<Team>(Softmax{whole.largest, whole.exp_sum}, kept, index);
    return counts ? loss_of_ranks(whole, target(rows, index), rows.classes, smoothing) : 0.0;
  }
};

template <class Team, class T, class Term>
cudaError_t launch_sum(const LogitRows& rows, const T* logits, const Term& term, const BlockSums& memory,
                       float* total, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(blocks_of_rows<Team>(rows.count()));
  return launch(sum_rows<Team, T, Term>, dim3(blocks), dim3(kThreads), stream, rows, logits, term,
                static_cast<double*>(memory.workspace), memory.counters, total);
}

}  // namespace

int64_t loss_workspace_bytes(int64_t rows, int64_t classes) {
  return with_team(classes, [=](auto team) {
    return blocks_of_rows<decltype(team)>(rows) * static_cast<int64_t>(sizeof(double));
  });
}

cudaError_t launch_cross_entropy(const LogitRows& rows, DType dtype, const void* logits, double smoothing,
                                 const SoftmaxOfRows& softmax, const BlockSums& memory, float* loss,
                                 cudaStream_t stream) {
  return with_team(rows.classes, [=](auto team) {
    return with_storage(dtype, [=](auto type) {
      using Team = decltype(team);
      using T = decltype(type);
      return launch_sum<Team>(rows, static_cast<const T*>(logits), RowLoss<Team, T>{smoothing, softmax},
                              memory, loss, stream);
    });
  });
}

cudaError_t launch_logit_sums(const LogitRows& rows, const OwnClasses& own, DType dtype, const void* logits,
                              const float* class_weights, float* sums, cudaStream_t stream) {
  return with_team(rows.classes, [=](auto team) {
    return with_storage(dtype, [=](auto type) {
      using Team = decltype(team);
      using T = decltype(type);
      return launch(sum_logits<Team, T>, Team::grid(rows.count()), dim3(kThreads), stream, rows, own,
                    static_cast<const T*>(logits), class_weights, sums);
    });
  });
}

cudaError_t launch_classes_before(const LogitRows& rows, const OwnClasses& own, int64_t ranks, DType dtype,
                                  const void* logits, const float* sums, float* counts, cudaStream_t stream) {
  return with_team(rows.classes, [=](auto team) {
    return with_storage(dtype, [=](auto type) {
      using Team = decltype(team);
      using T = decltype(type);
      return launch(count_classes_before<Team, T>, Team::grid(rows.count()), dim3(kThreads), stream, rows,
                    own, ranks, static_cast<const T*>(logits), sums, counts);
    });
  });
}

cudaError_t launch_top_k_of_ranks(const LogitRows& rows, int64_t ranks, const float* sums,
                                  const float* counts, int64_t k, int32_t ignored, const BlockSums& memory,
                                  float* hits, cudaStream_t stream) {
  return launch_sum<WarpTeam>(rows, sums, HitOfRanks{ranks, k, ignored, counts}, memory, hits, stream);
}

int64_t sums_workspace_bytes(int64_t rows) {
  return blocks_of_rows<WarpTeam>(rows) * static_cast<int64_t>(sizeof(double));
}

cudaError_t launch_cross_entropy_of_ranks(const LogitRows& rows, int64_t ranks, const float* sums,
                                          double smoothing, const SoftmaxOfRows& softmax,
                                          const BlockSums& memory, float* loss, cudaStream_t stream) {
  return launch_sum<WarpTeam>(rows, sums, LossOfRanks<WarpTeam>{ranks, smoothing, softmax}, memory, loss,
                              stream);
}

cudaError_t launch_cross_entropy_backward(const LogitRows& rows, const OwnClasses& own, DType dtype,
                                          const void* logits, const KeptSoftmax& softmax, double smoothing,
                                          const float* dloss, void* dlogits, int64_t dlogits_step,
                                          cudaStream_t stream) {
  return with_team(rows.classes, [=](auto team) {
    return with_storage(dtype, [=](auto type) {
      using Team = decltype(team);
      using T = decltype(type);
      return launch(gradient_rows<Team, T>, Team::grid(rows.count()), dim3(kThreads), stream, rows, own,
                    static_cast<const T*>(logits), softmax, static_cast<float>(smoothing), dloss,
                    static_cast<T*>(dlogits), dlogits_step);
    });
  });
}

cudaError_t launch_top_k(const LogitRows& rows, DType dtype, const void* logits, int64_t k, int32_t ignored,
                         const BlockSums& memory, float* correct, cudaStream_t stream) {
  return with_team(rows.classes, [=](auto team) {
    return with_storage(dtype, [=](auto type) {
      using Team = decltype(team);
      using T = decltype(type);
      return launch_sum<Team>(rows, static_cast<const T*>(logits), RowHit<Team, T>{k, ignored}, memory,
                              correct, stream);
    });
  });
}

}  // namespace trainer::cuda
