// SPDX-License-Identifier: Apache-2.0
#include "cuda/group_norm.h"

#include "core/base/math.h"
#include "cuda/reduce.h"
#include "cuda/rows.h"
#include "cuda/team.h"

namespace trainer::cuda {
namespace {

/// The parts of each sample's channels, and the beginning of a group.
struct GroupSweep {
  RowSweep of_image;
  int64_t samples, groups;

  explicit GroupSweep(const GroupedImages& p)
      : of_image(p.pixels, p.channels), samples(p.samples), groups(p.groups) {}
  TRAINER_HD int64_t channels() const { return of_image.channels / groups; }  ///< of one group
  TRAINER_HD int64_t sums_at(int64_t sample, int64_t part, int64_t channel) const {
    return (sample * of_image.parts + part) * of_image.channels + channel;
  }
  int64_t sums() const { return samples * of_image.parts * of_image.channels; }
  dim3 grid() const {
    return dim3(static_cast<unsigned>(samples * of_image.columns()), static_cast<unsigned>(of_image.parts));
  }
};

/// The coordinates of a thread of GroupSweep::grid().
struct InImage {
  int64_t sample;
  Column at;
  __device__ explicit InImage(const GroupSweep& sweep)
      : sample(blockIdx.x / sweep.of_image.columns()),
        at(column_of(sweep.of_image, blockIdx.x % sweep.of_image.columns())) {}
  __device__ int64_t place(const GroupSweep& sweep, int64_t row) const {
    return (sample * sweep.of_image.rows + row) * sweep.of_image.channels + at.channel;
  }
};

/// A number of the group of each of eight channels.
__device__ inline Octet of_groups(const GroupSweep& sweep, const float* numbers, int64_t sample,
                                  const Column& at) {
  Octet octet;
#pragma unroll
  for (int i = 0; i < Octet::kSize; ++i) {
    octet.v[i] = i < at.left ? numbers[sample * sweep.groups + (at.channel + i) / sweep.channels()] : 0.0f;
  }
  return octet;
}

/// Sums of x - first and its square over each part, with `first` the channel's first pixel: the remaining
/// mean is then of the size of the deviations.
template <class T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    measure_groups(GroupSweep sweep, const T* x, float* part_sums, float* part_squares) {
  wait_for_previous_kernels();
  const InImage in(sweep);
  const Column& at = in.at;
  Octet first{};
  if (at.left > 0) first = load(x + in.place(sweep, 0), at.left);
  Sums own{};
  for (int64_t row = at.row; row < at.end; row += at.step) {
    const Octet value = load(x + in.place(sweep, row), at.left);
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i) {
      const float offset = value.v[i] - first.v[i];
      own.a.v[i] += offset;
      own.b.v[i] += offset * offset;
    }
  }
  own = reduce_rows(own, AddSums{});
  if (threadIdx.y != 0 || at.left <= 0) return;
  const int64_t to = sweep.sums_at(in.sample, blockIdx.y, at.channel);
  store(own.a, at.left, part_sums + to);
  store(own.b, at.left, part_squares + to);
}

/// The parts of a channel of a sample, in double.
__device__ inline double sum_of_parts(const GroupSweep& sweep, const float* parts, int64_t sample,
                                      int64_t channel) {
  double sum = 0;
  for (int64_t part = 0; part < sweep.of_image.parts; ++part)
    sum += parts[sweep.sums_at(sample, part, channel)];
  return sum;
}

/// A warp for each group: its mean and factor, written to `settled` (mean, then factor) and to the outputs if
/// needed.
template <class T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    settle_groups(GroupSweep sweep, double eps, const T* x, const float* part_sums, const float* part_squares,
                  float* settled, float* mean_of, float* factor_of) {
  wait_for_previous_kernels();
  const int64_t index = WarpTeam::row();
  if (index >= sweep.samples * sweep.groups) return;
  const int64_t sample = index / sweep.groups, begin = index % sweep.groups * sweep.channels();
  const double pixels = static_cast<double>(sweep.of_image.rows),
               values = pixels * static_cast<double>(sweep.channels());
  auto mean_of_channel = [&](int64_t c) {
    const double first = to_float(x[sample * sweep.of_image.rows * sweep.of_image.channels + c]);
    return first + sum_of_parts(sweep, part_sums, sample, c) / pixels;
  };
  double mean = 0, squares = 0;
  for (int64_t c = begin + WarpTeam::member(); c < begin + sweep.channels(); c += kWarp)
    mean += mean_of_channel(c) * pixels;
  mean = warp_sum(mean) / values;
  for (int64_t c = begin + WarpTeam::member(); c < begin + sweep.channels(); c += kWarp) {
    const double sum = sum_of_parts(sweep, part_sums, sample, c), offset = mean_of_channel(c) - mean;
    squares += sum_of_parts(sweep, part_squares, sample, c) - sum * sum / pixels + offset * offset * pixels;
  }
  const double variance = warp_sum(squares) / values;
  if (WarpTeam::member() != 0) return;
  const float factor =
      static_cast<float>(1 / math::sqrt((variance < 0 ? 0 * variance : variance) + eps));  // NaN stays
  settled[index] = static_cast<float>(mean);
  settled[sweep.samples * sweep.groups + index] = factor;
  if (mean_of != nullptr) mean_of[index] = static_cast<float>(mean);
  if (factor_of != nullptr) factor_of[index] = factor;
}

template <class T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    apply_groups(GroupSweep sweep, const float* settled, const float* gamma, const float* beta, const T* x,
                 T* y) {
  wait_for_previous_kernels();
  const InImage in(sweep);
  const Column& at = in.at;
  if (at.left <= 0) return;
  const Octet mean = of_groups(sweep, settled, in.sample, at);
  Octet scale = of_groups(sweep, settled + sweep.samples * sweep.groups, in.sample, at), shift{};
  if (gamma != nullptr)
    scale = each([](float a, float b) { return a * b; }, scale, load(gamma + at.channel, at.left));
  if (beta != nullptr) shift = load(beta + at.channel, at.left);
  for (int64_t row = at.row; row < at.end; row += at.step) {
    const int64_t place = in.place(sweep, row);
    const Octet value = load(x + place, at.left);
    store(each([](float v, float m, float s, float b) { return s * (v - m) + b; }, value, mean, scale, shift),
          at.left, y + place);
  }
}

/// Sums of dy and dy * (x - mean) over each part.
template <class T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    measure_group_slopes(GroupSweep sweep, const T* dy, const T* x, const float* mean_of, float* part_slopes,
                         float* part_products) {
  wait_for_previous_kernels();
  const InImage in(sweep);
  const Column& at = in.at;
  const Octet mean = of_groups(sweep, mean_of, in.sample, at);
  Sums own{};
  for (int64_t row = at.row; row < at.end; row += at.step) {
    const int64_t place = in.place(sweep, row);
    const Octet slope = load(dy + place, at.left), value = load(x + place, at.left);
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i) {
      own.a.v[i] += slope.v[i];
      own.b.v[i] += slope.v[i] * (value.v[i] - mean.v[i]);
    }
  }
  own = reduce_rows(own, AddSums{});
  if (threadIdx.y != 0 || at.left <= 0) return;
  const int64_t to = sweep.sums_at(in.sample, blockIdx.y, at.channel);
  store(own.a, at.left, part_slopes + to);
  store(own.b, at.left, part_products + to);
}

/// A warp for each group: pull and shift of dx = factor * gamma * dy + pull * (x - mean) + shift.
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    settle_group_slopes(GroupSweep sweep, const float* part_slopes, const float* part_products,
                        const float* gamma, const float* factor_of, float* settled) {
  wait_for_previous_kernels();
  const int64_t index = WarpTeam::row(), all = sweep.samples * sweep.groups;
  if (index >= all) return;
  const int64_t sample = index / sweep.groups, begin = index % sweep.groups * sweep.channels();
  const double values = static_cast<double>(sweep.of_image.rows) * static_cast<double>(sweep.channels());
  double slopes = 0, products = 0;
  for (int64_t c = begin + WarpTeam::member(); c < begin + sweep.channels(); c += kWarp) {
    const double weight = gamma == nullptr ? 1.0 : gamma[c];
    slopes += weight * sum_of_parts(sweep, part_slopes, sample, c);
    products += weight * sum_of_parts(sweep, part_products, sample, c);
  }
  slopes = warp_sum(slopes), products = warp_sum(products);
  if (WarpTeam::member() != 0) return;
  const double factor = factor_of[index];
  settled[index] = static_cast<float>(-factor * factor * factor * products / values);
  settled[all + index] = static_cast<float>(-factor * slopes / values);
}

/// The parameters' gradients, over all samples and parts in order.
__global__ void __launch_bounds__(kFinishWide* kFinishHigh, 1)
    finish_group_slopes(GroupSweep sweep, const float* part_slopes, const float* part_products,
                        const float* factor_of, float* dgamma, float* dbeta) {
  wait_for_previous_kernels();
  const RowSweep& image = sweep.of_image;
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kFinishWide + threadIdx.x,
                parts = sweep.samples * image.parts;
  const bool exists = c < image.channels;
  const double product = sum_parts(parts, [&](int64_t part) {
    if (!exists) return 0.0;
    const double factor = factor_of[part / image.parts * sweep.groups + c / sweep.channels()];
    return factor * part_products[part * image.channels + c];
  });
  const double slope = sum_parts(
      parts, [&](int64_t part) { return exists ? double{part_slopes[part * image.channels + c]} : 0.0; });
  if (threadIdx.y != 0 || !exists) return;
  if (dgamma != nullptr) dgamma[c] = static_cast<float>(product);
  if (dbeta != nullptr) dbeta[c] = static_cast<float>(slope);
}

/// Not __restrict__: dx may be dy or x.
template <class T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    apply_group_slopes(GroupSweep sweep, const T* dy, const T* x, const float* gamma, const float* mean_of,
                       const float* factor_of, const float* settled, T* dx) {
  wait_for_previous_kernels();
  const InImage in(sweep);
  const Column& at = in.at;
  if (at.left <= 0) return;
  const Octet mean = of_groups(sweep, mean_of, in.sample, at),
              pull = of_groups(sweep, settled, in.sample, at),
              shift = of_groups(sweep, settled + sweep.samples * sweep.groups, in.sample, at);
  Octet scale = of_groups(sweep, factor_of, in.sample, at);
  if (gamma != nullptr)
    scale = each([](float a, float b) { return a * b; }, scale, load(gamma + at.channel, at.left));
  for (int64_t row = at.row; row < at.end; row += at.step) {
    const int64_t place = in.place(sweep, row);
    const Octet slope = load(dy + place, at.left), value = load(x + place, at.left);
    Octet result;
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i)
      result.v[i] = scale.v[i] * slope.v[i] + pull.v[i] * (value.v[i] - mean.v[i]) + shift.v[i];
    store(result, at.left, dx + place);
  }
}

/// Two sums of each part, then two numbers of each group.
struct Workspace {
  float *first, *second, *settled;
  Workspace(const GroupSweep& sweep, void* memory)
      : first(static_cast<float*>(memory)), second(first + sweep.sums()), settled(second + sweep.sums()) {}
};

dim3 warp_for_each_group(const GroupSweep& sweep) {
  return WarpTeam::grid(sweep.samples * sweep.groups);
}

}  // namespace

int64_t group_norm_workspace(const GroupedImages& images) {
  const GroupSweep sweep(images);
  return 2 * (sweep.sums() + sweep.samples * sweep.groups) * static_cast<int64_t>(sizeof(float));
}

cudaError_t launch_group_norm(const GroupedImages& images, double eps, const GroupNormTensors& t,
                              void* workspace, cudaStream_t stream) {
  const GroupSweep sweep(images);
  const Workspace work(sweep, workspace);
  return with_storage(images.dtype, [=](auto type) {
    using T = decltype(type);
    const auto* x = static_cast<const T*>(t.x);
    cudaError_t status = launch(measure_groups<T>, sweep.grid(), sweep.of_image.block(), stream, sweep, x,
                                work.first, work.second);
    if (status != cudaSuccess) return status;
    status = launch(settle_groups<T>, warp_for_each_group(sweep), dim3(kThreads), stream, sweep, eps, x,
                    work.first, work.second, work.settled, t.mean, t.factor);
    if (status != cudaSuccess) return status;
    return launch(apply_groups<T>, sweep.grid(), sweep.of_image.block(), stream, sweep, work.settled, t.gamma,
                  t.beta, x, static_cast<T*>(t.y));
  });
}

cudaError_t launch_group_norm_backward(const GroupedImages& images, const GroupNormGradients& t,
                                       void* workspace, cudaStream_t stream) {
  const GroupSweep sweep(images);
  const Workspace work(sweep, workspace);
  return with_storage(images.dtype, [=](auto type) {
    using T = decltype(type);
    const auto *dy = static_cast<const T*>(t.dy), *x = static_cast<const T*>(t.x);
    cudaError_t status = launch(measure_group_slopes<T>, sweep.grid(), sweep.of_image.block(), stream, sweep,
                                dy, x, t.mean, work.first, work.second);
    if (status != cudaSuccess) return status;
    status = launch(settle_group_slopes, warp_for_each_group(sweep), dim3(kThreads), stream, sweep,
                    work.first, work.second, t.gamma, t.factor, work.settled);
    if (status != cudaSuccess) return status;
    if (t.dgamma != nullptr || t.dbeta != nullptr) {
      status = launch(finish_group_slopes, finish_grid(images.channels), finish_block(), stream, sweep,
                      work.first, work.second, t.factor, t.dgamma, t.dbeta);
      if (status != cudaSuccess) return status;
    }
    return launch(apply_group_slopes<T>, sweep.grid(), sweep.of_image.block(), stream, sweep, dy, x, t.gamma,
                  t.mean, t.factor, work.settled, static_cast<T*>(t.dx));
  });
}

}  // namespace trainer::cuda
