// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/soft_cross_entropy.h"

#include "core/base/math.h"
#include "core/graph/ops/cross_entropy.h"
#include "cuda/launch.h"
#include "cuda/table.h"
#include "cuda/team.h"

namespace trainer::cuda {
namespace {

/// Rows of logits of both networks; a weight for each sample of `positions` rows.
struct SoftRows {
  int64_t rows, positions, classes;
  const float *x, *teacher, *weight;
  float inverse;  ///< of the temperature
};

/// Of a row at a temperature: exp((x - largest) * inverse) has this sum.
struct WarmSums {
  float largest;
  double sum;
};

template <class Team>
__device__ inline WarmSums warm_sums(const float* row, int64_t classes, float inverse) {
  float largest = -INFINITY;
  for (int64_t c = Team::member(); c < classes; c += Team::kSize) largest = Larger{}(largest, row[c]);
  largest = Team::reduce(largest, Larger{});
  double sum = 0;
  for (int64_t c = Team::member(); c < classes; c += Team::kSize)
    sum += math::exp((row[c] - largest) * inverse);
  return {largest, Team::sum(sum)};
}

/// The loss of each row, which a second kernel adds up.
template <class Team>
__global__ void __launch_bounds__(kThreads) soft_losses(SoftRows all, double* losses) {
  wait_for_previous_kernels();
  const int64_t row = Team::row();
  if (row >= all.rows) return;
  const float weight = all.weight[row / all.positions];
  if (weight == 0) {
    if (Team::member() == 0) losses[row] = 0;
    return;
  }
  const float *x = all.x + row * all.classes, *teacher = all.teacher + row * all.classes;
  const WarmSums of_x = warm_sums<Team>(x, all.classes, all.inverse);
  const WarmSums of_teacher = warm_sums<Team>(teacher, all.classes, all.inverse);
  double product = 0;
  for (int64_t c = Team::member(); c < all.classes; c += Team::kSize) {
    product += static_cast<double>(math::exp((teacher[c] - of_teacher.largest) * all.inverse)) *
               static_cast<double>((x[c] - of_x.largest) * all.inverse);
  }
  product = Team::sum(product);
  if (Team::member() == 0) losses[row] = weight * (::log(of_x.sum) - product / of_teacher.sum);
}

__global__ void __launch_bounds__(kThreads)
    add_soft_losses(const double* losses, int64_t rows, double factor, float* loss) {
  wait_for_previous_kernels();
  double sum = 0;
  for (int64_t i = threadIdx.x; i < rows; i += kThreads) sum += losses[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *loss = static_cast<float>(factor * sum);
}

template <class Team>
__global__ void __launch_bounds__(kThreads)
    soft_gradients(SoftRows all, float factor, const float* dloss, float* dx) {
  wait_for_previous_kernels();
  const int64_t row = Team::row();
  if (row >= all.rows) return;
  const float weight = all.weight[row / all.positions];
  const float *x = all.x + row * all.classes, *teacher = all.teacher + row * all.classes;
  float* to = dx + row * all.classes;
  if (weight == 0) {
    for (int64_t c = Team::member(); c < all.classes; c += Team::kSize) to[c] = 0;
    return;
  }
  const WarmSums of_x = warm_sums<Team>(x, all.classes, all.inverse);
  const WarmSums of_teacher = warm_sums<Team>(teacher, all.classes, all.inverse);
  const float scale = *dloss * factor * weight;
  const auto of_p = static_cast<float>(scale / of_x.sum), of_q = static_cast<float>(scale / of_teacher.sum);
  Team::wait();  // dx may be in the memory of x or of the teacher
  for (int64_t c = Team::member(); c < all.classes; c += Team::kSize) {
    to[c] = of_p * math::exp((x[c] - of_x.largest) * all.inverse) -
            of_q * math::exp((teacher[c] - of_teacher.largest) * all.inverse);
  }
}

/// As the operation `Op` reads them.
template <class Op>
SoftRows soft_rows(const LogitSizes& sizes, double temperature, const Slots& slots) {
  return {sizes.samples * sizes.positions,
          sizes.positions,
          sizes.classes,
          at<const float>(slots.inputs[Op::kLogits]),
          at<const float>(slots.inputs[Op::kTeacher]),
          at<const float>(slots.inputs[Op::kWeights]),
          static_cast<float>(1 / temperature)};
}

std::unique_ptr<Kernel> compile_soft_loss(const Gpu& gpu, const OpContext& context, const Choice&,
                                          const Slots& slots) {
  using Op = SoftCrossEntropy;
  return kernel(context, [=, t = static_cast<const Op&>(context.op).temperature,
                          sizes = LogitSizes(context.inputs[Op::kLogits].shape), stream = gpu.stream.get()] {
    const SoftRows all = soft_rows<Op>(sizes, t, slots);
    auto* losses = static_cast<double*>(*slots.workspace);
    const cudaError_t status = with_team(all.classes, [&](auto team) {
      using Team = decltype(team);
      return launch(soft_losses<Team>, Team::grid(all.rows), dim3(kThreads), stream, all, losses);
    });
    if (status != cudaSuccess) return status;
    return launch(add_soft_losses, dim3(1), dim3(kThreads), stream, losses, all.rows,
                  t * t / static_cast<double>(all.positions), at<float>(slots.outputs[Op::kLoss]));
  });
}

std::unique_ptr<Kernel> compile_soft_gradient(const Gpu& gpu, const OpContext& context, const Choice&,
                                              const Slots& slots) {
  using Op = SoftCrossEntropyBackward;
  return kernel(context, [=, t = static_cast<const Op&>(context.op).temperature,
                          sizes = LogitSizes(context.inputs[Op::kLogits].shape), stream = gpu.stream.get()] {
    const SoftRows all = soft_rows<Op>(sizes, t, slots);
    return with_team(all.classes, [&](auto team) {
      using Team = decltype(team);
      return launch(soft_gradients<Team>, Team::grid(all.rows), dim3(kThreads), stream, all,
                    static_cast<float>(t / static_cast<double>(all.positions)),
                    at<const float>(slots.inputs[Op::kDloss]), at<float>(slots.outputs[Op::kDlogits]));
    });
  });
}

/// With their classes last, logits of positions are rows like those of samples.
Choice select_soft_gradient(const Gpu&, const OpContext& context, const OpenLayouts&) {
  return all_channels_last(context, "rows");
}

Choice select_soft_loss(const Gpu& gpu, const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_soft_gradient(gpu, context, inputs);
  const LogitSizes sizes(context.inputs[SoftCrossEntropy::kLogits].shape);
  choice.workspace_bytes = sizes.samples * sizes.positions * static_cast<int64_t>(sizeof(double));
  choice.kernels = 2;
  return choice;
}

std::optional<std::string> f32_logits(const Gpu&, const OpContext& context) {
  for (const TensorSpec& input : context.inputs) {
    if (input.dtype != DType::f32)
      return "its GPU kernel takes f32, not " + std::string(to_string(input.dtype));
  }
  return std::nullopt;
}

}  // namespace

void add_soft_cross_entropy(Handlers& handlers) {
  handlers[typeid(SoftCrossEntropy)] = {select_soft_loss, compile_soft_loss, f32_logits};
  handlers[typeid(SoftCrossEntropyBackward)] = {select_soft_gradient, compile_soft_gradient, f32_logits};
}

}  // namespace trainer::cuda
