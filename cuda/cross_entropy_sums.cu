// SPDX-License-Identifier: Apache-2.0
#include "cuda/cross_entropy_sums.h"

#include "cuda/grid.h"
#include "cuda/logit_row.h"

namespace trainer::cuda {
namespace {

constexpr unsigned kSums = 3;

__device__ inline float class_weight(const TargetRows& rows, int64_t c) {
  return rows.class_weights == nullptr ? 1.0f : rows.class_weights[c];
}

/// Of up to eight classes; after the last one anything.
__device__ inline Octet class_weights(const TargetRows& rows, int64_t first, int count) {
  if (rows.class_weights != nullptr) return load(rows.class_weights + first, count);
  return each([](float) { return 1.0f; }, Octet{});
}

/// The sum of all class weights; by one team.
template <class Team>
__device__ inline double all_class_weights(const TargetRows& rows, int64_t classes) {
  if (rows.class_weights == nullptr) return static_cast<double>(classes);
  double sum = 0;
  for (int64_t c = Team::member(); c < classes; c += Team::kSize) sum += rows.class_weights[c];
  return Team::sum(sum);
}

/// Of row `index`, whose softmax it keeps; 0 unless the row counts. Class weights take the registers of a
/// second piece in flight.
template <class Team, class T, bool kSmooths>
__device__ inline double target_loss(const TargetRows& rows, const T* logits, int64_t index, bool counts,
                                     const SoftmaxOfRows& kept) {
  const T* row = logits + index * rows.rows.classes;
  double weighted = 0;  // the sum of its logits, each by the weight of its class
  constexpr int kAtOnce = kSmooths ? 1 : 2;
  const auto weigh = [&](int64_t first, const Octet& x, int count) {
    if (!kSmooths) return;
    const Octet weights = class_weights(rows, first, count);
    for (int i = 0; i < count; ++i) weighted += static_cast<double>(weights.v[i]) * x.v[i];
  };
  const Softmax of_row = softmax<Team, kAtOnce>(row, rows.rows.classes, weigh);
  keep<Team>(of_row, kept, index);
  if (!counts) return 0;
  double all_weights = 0;
  if (kSmooths)
    all_weights = all_class_weights<Team>(rows, rows.rows.classes), weighted = Team::sum(weighted);
  const int32_t label = rows.rows.label[index];
  const WeightedTarget<double> target{class_weight(rows, label), rows.smoothing,
                                      rows.smoothing / static_cast<double>(rows.rows.classes)};
  const double log_sum = ::log(static_cast<double>(of_row.sum)) + of_row.largest;
  const auto own = static_cast<double>(to_float(row[label]));
  const double loss = target.loss(log_sum, own, all_weights, weighted);
  return rows.gamma == 0 ? loss : loss * Focus<double>(rows.gamma, own - log_sum).loss;
}

/// Block b's part of output o is partial[o * blocks + b]. A sample of weight 0 does not count, even with NaN.
template <class Team, class T, bool kSmooths>
__global__ void __launch_bounds__(kThreads, kSmooths ? kFewBlocks : 4)
    sum_targets(TargetRows rows, const T* logits, SoftmaxOfRows kept, double* partial) {
  wait_for_previous_kernels();
  double sums[kSums] = {};
  const int64_t first = blockIdx.x * kRowsOfBlock<Team>, end = first + kRowsOfBlock<Team>;
  for (int64_t row = first + threadIdx.x / Team::kSize;
       row < end && row < rows.rows.samples * rows.rows.positions; row += Team::kTeams) {
    const double weight = rows.rows.weight[row / rows.rows.positions];
    const int32_t label = rows.rows.label[row];
    if (label == rows.ignored) {
      keep<Team>({0, 1}, kept, row);  // read by nobody
      continue;
    }
    sums[0] += weight * target_loss<Team, T, kSmooths>(rows, logits, row, weight != 0, kept);
    sums[1] += weight * class_weight(rows, label);
    sums[2] += weight;
  }
  TRAINER_SHARED(double, of_team, [kSums][kThreads / kWarp]);
  if (Team::member() == 0) {
    for (unsigned o = 0; o < kSums; ++o) of_team[o][threadIdx.x / Team::kSize] = sums[o];
  }
  __syncthreads();
  if (threadIdx.x >= kSums) return;
  double sum = 0;
  for (int64_t team = 0; team < Team::kTeams; ++team) sum += of_team[threadIdx.x][team];
  partial[threadIdx.x * gridDim.x + blockIdx.x] = sum;
}

/// Block o adds up the parts of output o.
__global__ void __launch_bounds__(kThreads)
    finish_target_sums(const double* partial, int64_t count, double positions, TargetSums sums) {
  wait_for_previous_kernels();
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum += partial[blockIdx.x * count + i];
  sum = block_sum(sum);
  if (threadIdx.x == 0 && sums.of[blockIdx.x] != nullptr)
    *sums.of[blockIdx.x] = static_cast<float>(sum / positions);
}

/// Focal or not at compile time: this saves cross entropy registers.
template <class Team, class T, bool kFocal>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    target_gradient_rows(TargetRows rows, OwnClasses own, const T* logits, KeptSoftmax kept,
                         const float* dloss, T* dx) {
  wait_for_previous_kernels();
  const int64_t index = Team::row(), classes = rows.rows.classes;
  if (index >= rows.rows.samples * rows.rows.positions) return;
  const T* row = logits + index * classes;
  T* out = dx + index * classes;
  const int32_t label = rows.rows.label[index];
  if (label == rows.ignored) {
    visit_logits<Team>(row, classes,
                       [&](int64_t first, const Octet&, int count) { store(Octet{}, count, out + first); });
    return;
  }
  const float largest = kept.largest[index], exp_sum = kept.sum[index];
  const double all_weights = rows.smoothing > 0 ? all_class_weights<Team>(rows, own.all) : 0;
  const auto smoothing = static_cast<float>(rows.smoothing);
  const WeightedTarget<float> target{class_weight(rows, label), smoothing,
                                     smoothing / static_cast<float>(own.all)};
  float scale =
      *dloss / static_cast<float>(rows.rows.positions) * rows.rows.weight[index / rows.rows.positions];
  if constexpr (kFocal) {
    const float log_p = to_float(row[label]) - largest - std::log(exp_sum);
    scale *= Focus<float>(static_cast<float>(rows.gamma), log_p).gradient;
    Team::wait();  // dx may be the logits' own memory, and every member reads the label's
  }
  const float share = target.share(static_cast<float>(all_weights)) / exp_sum;
  const int64_t own_label = label - own.first;
  if (rows.class_weights != nullptr) rows.class_weights += own.first;
  visit_logits<Team>(row, own.valid, [&](int64_t first, const Octet& x, int count) {
    const Octet weights = class_weights(rows, first, count);
    Octet d;
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i) {
      d.v[i] = share * math::exp(x.v[i] - largest) - target.even * weights.v[i];
      if (first + i == own_label) d.v[i] -= target.sharp();
      d.v[i] *= scale;
    }
    store(d, count, out + first);
  });
  for (int64_t c = own.valid + Team::member(); c < classes; c += Team::kSize) put(0.0f, out[c]);  // padding
}

/// The parts of blocks, as sum_targets's; a thread for each row.
__global__ void __launch_bounds__(kThreads)
    sum_targets_of_ranks(TargetRows rows, int64_t ranks, const float* sums, SoftmaxOfRows kept,
                         double* partial) {
  wait_for_previous_kernels();
  const int64_t count = rows.rows.samples * rows.rows.positions;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  double own[kSums] = {};
  if (row < count) {
    const LogitSum whole = of_all_ranks(sums, count, ranks, row);
    if (kept.largest != nullptr) kept.largest[row] = whole.largest;
    if (kept.sum != nullptr) kept.sum[row] = whole.exp_sum;
    const double weight = rows.rows.weight[row / rows.rows.positions];
    const int32_t label = rows.rows.label[row];
    if (label != rows.ignored && weight != 0) {
      double all_weights = static_cast<double>(rows.rows.classes);
      if (rows.smoothing > 0 && rows.class_weights != nullptr) {
        all_weights = 0;
        for (int64_t c = 0; c < rows.rows.classes; ++c) all_weights += rows.class_weights[c];
      }
      const WeightedTarget<double> target{class_weight(rows, label), rows.smoothing,
                                          rows.smoothing / static_cast<double>(rows.rows.classes)};
      const double log_sum = ::log(static_cast<double>(whole.exp_sum)) + whole.largest;
      const double weighted = rows.smoothing > 0 ? whole.all : 0.0;
      own[0] = weight * target.loss(log_sum, static_cast<double>(whole.own), all_weights, weighted);
      own[1] = weight * target.own;
      own[2] = weight;
    }
  }
  for (unsigned o = 0; o < kSums; ++o) {
    const double sum = block_sum(own[o]);
    if (threadIdx.x == 0) partial[o * gridDim.x + blockIdx.x] = sum;
    __syncthreads();
  }
}

__global__ void __launch_bounds__(1)
    mean_over_targets(const float* sum, const float* weight, const float* scale, TargetSums y) {
  wait_for_previous_kernels();
  const float all = *weight == 0 ? 1.0f : *weight, divisor = *scale * all;
  const float mean = *sum / all;
  if (y.of[MeanOverTargets::kMean] != nullptr) *y.of[MeanOverTargets::kMean] = mean;
  if (y.of[MeanOverTargets::kFactor] != nullptr) *y.of[MeanOverTargets::kFactor] = 1 / divisor;
  if (y.of[MeanOverTargets::kDivisor] != nullptr) *y.of[MeanOverTargets::kDivisor] = divisor;
}

}  // namespace

int64_t target_workspace_bytes(int64_t rows, int64_t classes) {
  return with_team(classes, [=](auto team) {
    return blocks_of_rows<decltype(team)>(rows) * static_cast<int64_t>(kSums * sizeof(double));
  });
}

cudaError_t launch_cross_entropy_sums(const TargetRows& rows, DType dtype, const void* logits,
                                      const SoftmaxOfRows& softmax, void* workspace, const TargetSums& sums,
                                      cudaStream_t stream) {
  return with_team(rows.rows.classes, [=](auto team) {
    using Team = decltype(team);
    const int64_t blocks = blocks_of_rows<Team>(rows.rows.count());
    auto* partial = static_cast<double*>(workspace);
    const cudaError_t status = with_storage(dtype, [=](auto type) {
      using T = decltype(type);
      const auto kernel = rows.smoothing > 0 ? sum_targets<Team, T, true> : sum_targets<Team, T, false>;
      return launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), stream, rows,
                    static_cast<const T*>(logits), softmax, partial);
    });
    if (status != cudaSuccess) return status;
    return launch(finish_target_sums, dim3(kSums), dim3(kThreads), stream, partial, blocks,
                  static_cast<double>(rows.rows.positions), sums);
  });
}

int64_t targets_of_ranks_workspace_bytes(int64_t rows) {
  return (rows + kThreads - 1) / kThreads * static_cast<int64_t>(kSums * sizeof(double));
}

cudaError_t launch_cross_entropy_sums_of_ranks(const TargetRows& rows, int64_t ranks, const float* sums,
                                               const SoftmaxOfRows& softmax, void* workspace,
                                               const TargetSums& y, cudaStream_t stream) {
  const int64_t blocks = (rows.rows.count() + kThreads - 1) / kThreads;
  auto* partial = static_cast<double*>(workspace);
  const cudaError_t status = launch(sum_targets_of_ranks, dim3(static_cast<unsigned>(blocks)), dim3(kThreads),
                                    stream, rows, ranks, sums, softmax, partial);
  if (status != cudaSuccess) return status;
  return launch(finish_target_sums, dim3(kSums), dim3(kThreads), stream, partial, blocks,
                static_cast<double>(rows.rows.positions), y);
}

cudaError_t launch_cross_entropy_sums_backward(const TargetRows& rows, const OwnClasses& own, DType dtype,
                                               const void* logits, const KeptSoftmax& softmax,
                                               const float* dloss, void* dlogits, cudaStream_t stream) {
  return with_team(rows.rows.classes, [=](auto team) {
    return with_storage(dtype, [=](auto type) {
      using Team = decltype(team);
      using T = decltype(type);
      const auto kernel =
          rows.gamma == 0 ? target_gradient_rows<Team, T, false> : target_gradient_rows<Team, T, true>;
      return launch(kernel, Team::grid(rows.rows.count()), dim3(kThreads), stream, rows, own,
                    static_cast<const T*>(logits), softmax, dloss, static_cast<T*>(dlogits));
    });
  });
}

cudaError_t launch_mean_over_targets(const float* sum, const float* weight, const float* scale,
                                     const TargetSums& y, cudaStream_t stream) {
  return launch(mean_over_targets, dim3(1), dim3(1), stream, sum, weight, scale, y);
}

}  // namespace trainer::cuda
