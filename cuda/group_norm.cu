// SPDX-License-Identifier: Apache-2.0
#include "cuda/group_norm.h"

#include "core/base/math.h"
#include "cuda/reduce.h"
#include "cuda/rows.h"
#include "cuda/team.h"

namespace trainer::cuda {
namespace {

/// The parts of each sample's channels, and where a group begins.
struct Walked {
  RowWalk of_image;
  int64_t samples, groups;

  explicit Walked(const GroupedImages& p)
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

/// What a thread of Walked::grid() has.
struct InImage {
  int64_t sample;
  Column at;
  __device__ explicit InImage(const Walked& walk)
      : sample(blockIdx.x / walk.of_image.columns()),
        at(column_of(walk.of_image, blockIdx.x % walk.of_image.columns())) {}
  __device__ int64_t place(const Walked& walk, int64_t row) const {
    return (sample * walk.of_image.rows + row) * walk.of_image.channels + at.channel;
  }
};

/// A number of the group of each of eight channels.
__device__ inline Octet of_groups(const Walked& walk, const float* numbers, int64_t sample,
                                  const Column& at) {
  Octet octet;
#pragma unroll
  for (int i = 0; i < Octet::kSize; ++i) {
    octet.v[i] = i < at.left ? numbers[sample * walk.groups + (at.channel + i) / walk.channels()] : 0.0f;
  }
  return octet;
}

/// Sums of x - first and its square over each part, `first` being the channel's first pixel: what is left of
/// the mean then is of the size of the deviations.
template <class T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    measure_groups(Walked walk, const T* x, float* part_sums, float* part_squares) {
  wait_for_previous_kernels();
  const InImage in(walk);
  const Column& at = in.at;
  Octet first{};
  if (at.left > 0) first = load(x + in.place(walk, 0), at.left);
  Sums own{};
  for (int64_t row = at.row; row < at.end; row += at.step) {
    const Octet value = load(x + in.place(walk, row), at.left);
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i) {
      const float offset = value.v[i] - first.v[i];
      own.a.v[i] += offset;
      own.b.v[i] += offset * offset;
    }
  }
  own = reduce_rows(own, AddSums{});
  if (threadIdx.y != 0 || at.left <= 0) return;
  const int64_t to = walk.sums_at(in.sample, blockIdx.y, at.channel);
  store(own.a, at.left, part_sums + to);
  store(own.b, at.left, part_squares + to);
}

/// The parts of a channel of a sample, in double.
__device__ inline double sum_of_parts(const Walked& walk, const float* parts, int64_t sample,
                                      int64_t channel) {
  double sum = 0;
  for (int64_t part = 0; part < walk.of_image.parts; ++part)
    sum += parts[walk.sums_at(sample, part, channel)];
  return sum;
}

/// A warp for each group: its mean and factor, written to `settled` (mean, then factor) and where wanted.
template <class T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    settle_groups(Walked walk, double eps, const T* x, const float* part_sums, const float* part_squares,
                  float* settled, float* mean_of, float* factor_of) {
  wait_for_previous_kernels();
  const int64_t index = WarpTeam::row();
  if (index >= walk.samples * walk.groups) return;
  const int64_t sample = index / walk.groups, begin = index % walk.groups * walk.channels();
  const double pixels = static_cast<double>(walk.of_image.rows),
               values = pixels * static_cast<double>(walk.channels());
  auto mean_of_channel = [&](int64_t c) {
    const double first = to_float(x[sample * walk.of_image.rows * walk.of_image.channels + c]);
    return first + sum_of_parts(walk, part_sums, sample, c) / pixels;
  };
  double mean = 0, squares = 0;
  for (int64_t c = begin + WarpTeam::member(); c < begin + walk.channels(); c += kWarp)
    mean += mean_of_channel(c) * pixels;
  mean = warp_sum(mean) / values;
  for (int64_t c = begin + WarpTeam::member(); c < begin + walk.channels(); c += kWarp) {
    const double sum = sum_of_parts(walk, part_sums, sample, c), offset = mean_of_channel(c) - mean;
    squares += sum_of_parts(walk, part_squares, sample, c) - sum * sum / pixels + offset * offset * pixels;
  }
  const double variance = warp_sum(squares) / values;
  if (WarpTeam::member() != 0) return;
  const float factor =
      static_cast<float>(1 / math::sqrt((variance < 0 ? 0 * variance : variance) + eps));  // NaN stays
  settled[index] = static_cast<float>(mean);
  settled[walk.samples * walk.groups + index] = factor;
  if (mean_of != nullptr) mean_of[index] = static_cast<float>(mean);
  if (factor_of != nullptr) factor_of[index] = factor;
}

template <class T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    apply_groups(Walked walk, const float* settled, const float* gamma, const float* beta, const T* x, T* y) {
  wait_for_previous_kernels();
  const InImage in(walk);
  const Column& at = in.at;
  if (at.left <= 0) return;
  const Octet mean = of_groups(walk, settled, in.sample, at);
  Octet scale = of_groups(walk, settled + walk.samples * walk.groups, in.sample, at), shift{};
  if (gamma != nullptr)
    scale = each([](float a, float b) { return a * b; }, scale, load(gamma + at.channel, at.left));
  if (beta != nullptr) shift = load(beta + at.channel, at.left);
  for (int64_t row = at.row; row < at.end; row += at.step) {
    const int64_t place = in.place(walk, row);
    const Octet value = load(x + place, at.left);
    store(each([](float v, float m, float s, float b) { return s * (v - m) + b; }, value, mean, scale, shift),
          at.left, y + place);
  }
}

/// Sums of dy and dy * (x - mean) over each part.
template <class T>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    measure_group_slopes(Walked walk, const T* dy, const T* x, const float* mean_of, float* part_slopes,
                         float* part_products) {
  wait_for_previous_kernels();
  const InImage in(walk);
  const Column& at = in.at;
  const Octet mean = of_groups(walk, mean_of, in.sample, at);
  Sums own{};
  for (int64_t row = at.row; row < at.end; row += at.step) {
    const int64_t place = in.place(walk, row);
    const Octet slope = load(dy + place, at.left), value = load(x + place, at.left);
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i) {
      own.a.v[i] += slope.v[i];
      own.b.v[i] += slope.v[i] * (value.v[i] - mean.v[i]);
    }
  }
  own = reduce_rows(own, AddSums{});
  if (threadIdx.y != 0 || at.left <= 0) return;
  const int64_t to = walk.sums_at(in.sample, blockIdx.y, at.channel);
  store(own.a, at.left, part_slopes + to);
  store(own.b, at.left, part_products + to);
}

/// A warp for each group: pull and shift of dx = factor * gamma * dy + pull * (x - mean) + shift.
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    settle_group_slopes(Walked walk, const float* part_slopes, const float* part_products, const float* gamma,
                        const float* factor_of, float* settled) {
  wait_for_previous_kernels();
  const int64_t index = WarpTeam::row(), all = walk.samples * walk.groups;
  if (index >= all) return;
  const int64_t sample = index / walk.groups, begin = index % walk.groups * walk.channels();
  const double values = static_cast<double>(walk.of_image.rows) * static_cast<double>(walk.channels());
  double slopes = 0, products = 0;
  for (int64_t c = begin + WarpTeam::member(); c < begin + walk.channels(); c += kWarp) {
    const double weight = gamma == nullptr ? 1.0 : gamma[c];
    slopes += weight * sum_of_parts(walk, part_slopes, sample, c);
    products += weight * sum_of_parts(walk, part_products, sample, c);
  }
  slopes = warp_sum(slopes), products = warp_sum(products);
  if (WarpTeam::member() != 0) return;
  const double factor = factor_of[index];
  settled[index] = static_cast<float>(-factor * factor * factor * products / values);
  settled[all + index] = static_cast<float>(-factor * slopes / values);
}

/// The parameters' gradients, over all samples and parts in order.
__global__ void __launch_bounds__(kFinishWide* kFinishHigh)
    finish_group_slopes(Walked walk, const float* part_slopes, const float* part_products,
                        const float* factor_of, float* dgamma, float* dbeta) {
  wait_for_previous_kernels();
  const RowWalk& image = walk.of_image;
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kFinishWide + threadIdx.x,
                parts = walk.samples * image.parts;
  const bool exists = c < image.channels;
  const double product = sum_parts(parts, [&](int64_t part) {
    if (!exists) return 0.0;
    const double factor = factor_of[part / image.parts * walk.groups + c / walk.channels()];
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
    apply_group_slopes(Walked walk, const T* dy, const T* x, const float* gamma, const float* mean_of,
                       const float* factor_of, const float* settled, T* dx) {
  wait_for_previous_kernels();
  const InImage in(walk);
  const Column& at = in.at;
  if (at.left <= 0) return;
  const Octet mean = of_groups(walk, mean_of, in.sample, at), pull = of_groups(walk, settled, in.sample, at),
              shift = of_groups(walk, settled + walk.samples * walk.groups, in.sample, at);
  Octet scale = of_groups(walk, factor_of, in.sample, at);
  if (gamma != nullptr)
    scale = each([](float a, float b) { return a * b; }, scale, load(gamma + at.channel, at.left));
  for (int64_t row = at.row; row < at.end; row += at.step) {
    const int64_t place = in.place(walk, row);
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
  Workspace(const Walked& walk, void* memory)
      : first(static_cast<float*>(memory)), second(first + walk.sums()), settled(second + walk.sums()) {}
};

dim3 warp_for_each_group(const Walked& walk) {
  return WarpTeam::grid(walk.samples * walk.groups);
}

}  // namespace

int64_t group_norm_workspace(const GroupedImages& images) {
  const Walked walk(images);
  return 2 * (walk.sums() + walk.samples * walk.groups) * static_cast<int64_t>(sizeof(float));
}

cudaError_t launch_group_norm(const GroupedImages& images, double eps, const GroupNormTensors& t,
                              void* workspace, cudaStream_t stream) {
  const Walked walk(images);
  const Workspace work(walk, workspace);
  return with_storage(images.dtype, [=](auto type) {
    using T = decltype(type);
    const auto* x = static_cast<const T*>(t.x);
    cudaError_t status = launch(measure_groups<T>, walk.grid(), walk.of_image.block(), stream, walk, x,
                                work.first, work.second);
    if (status != cudaSuccess) return status;
    status = launch(settle_groups<T>, warp_for_each_group(walk), dim3(kThreads), stream, walk, eps, x,
                    work.first, work.second, work.settled, t.mean, t.factor);
    if (status != cudaSuccess) return status;
    return launch(apply_groups<T>, walk.grid(), walk.of_image.block(), stream, walk, work.settled, t.gamma,
                  t.beta, x, static_cast<T*>(t.y));
  });
}

cudaError_t launch_group_norm_backward(const GroupedImages& images, const GroupNormGradients& t,
                                       void* workspace, cudaStream_t stream) {
  const Walked walk(images);
  const Workspace work(walk, workspace);
  return with_storage(images.dtype, [=](auto type) {
    using T = decltype(type);
    const auto *dy = static_cast<const T*>(t.dy), *x = static_cast<const T*>(t.x);
    cudaError_t status = launch(measure_group_slopes<T>, walk.grid(), walk.of_image.block(), stream, walk, dy,
                                x, t.mean, work.first, work.second);
    if (status != cudaSuccess) return status;
    status = launch(settle_group_slopes, warp_for_each_group(walk), dim3(kThreads), stream, walk, work.first,
                    work.second, t.gamma, t.factor, work.settled);
    if (status != cudaSuccess) return status;
    if (t.dgamma != nullptr || t.dbeta != nullptr) {
      status = launch(finish_group_slopes, finish_grid(images.channels), finish_block(), stream, walk,
                      work.first, work.second, t.factor, t.dgamma, t.dbeta);
      if (status != cudaSuccess) return status;
    }
    return launch(apply_group_slopes<T>, walk.grid(), walk.of_image.block(), stream, walk, dy, x, t.gamma,
                  t.mean, t.factor, work.settled, static_cast<T*>(t.dx));
  });
}

}  // namespace trainer::cuda
