// SPDX-License-Identifier: Apache-2.0
#include "cuda/softmax.h"

#include "core/base/math.h"
#include "cuda/team.h"

namespace trainer::cuda {
namespace {

/// A NaN makes all of its row NaN. Not __restrict__: y may be x.
template <class Team>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    softmax_rows(bool log, int64_t rows, int64_t classes, const float* x, float* y) {
  wait_for_previous_kernels();
  const int64_t row = Team::row();
  if (row >= rows) return;
  const int64_t first = row * classes;
  float largest = -INFINITY, sum = 0;
  for (int64_t c = Team::member(); c < classes; c += Team::kSize) largest = Larger{}(largest, x[first + c]);
  largest = Team::reduce(largest, Larger{});
  for (int64_t c = Team::member(); c < classes; c += Team::kSize) sum += math::exp(x[first + c] - largest);
  sum = Team::sum(sum);
  const float inverse = 1.0f / sum, log_sum = ::logf(sum);
  for (int64_t c = Team::member(); c < classes; c += Team::kSize) {
    const float own = x[first + c] - largest;
    y[first + c] = log ? own - log_sum : math::exp(own) * inverse;
  }
}

template <class Team>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    softmax_gradient_rows(bool log, int64_t rows, int64_t classes, const float* dy, const float* y,
                          float* dx) {
  wait_for_previous_kernels();
  const int64_t row = Team::row();
  if (row >= rows) return;
  const int64_t first = row * classes;
  float sum = 0;
  for (int64_t c = Team::member(); c < classes; c += Team::kSize)
    sum += log ? dy[first + c] : dy[first + c] * y[first + c];
  sum = Team::sum(sum);
  for (int64_t c = Team::member(); c < classes; c += Team::kSize) {
    const int64_t i = first + c;
    dx[i] = log ? dy[i] - math::exp(y[i]) * sum : y[i] * (dy[i] - sum);
  }
}

}  // namespace

cudaError_t launch_softmax(bool log, int64_t rows, int64_t classes, const float* x, float* y,
                           cudaStream_t stream) {
  return with_team(classes, [=](auto team) {
    using Team = decltype(team);
    return launch(softmax_rows<Team>, Team::grid(rows), dim3(kThreads), stream, log, rows, classes, x, y);
  });
}

cudaError_t launch_softmax_backward(bool log, int64_t rows, int64_t classes, const float* dy, const float* y,
                                    float* dx, cudaStream_t stream) {
  return with_team(classes, [=](auto team) {
    using Team = decltype(team);
    return launch(softmax_gradient_rows<Team>, Team::grid(rows), dim3(kThreads), stream, log, rows, classes,
                  dy, y, dx);
  });
}

}  // namespace trainer::cuda
