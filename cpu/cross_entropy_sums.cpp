// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/math.h"
#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/cross_entropy_sums.h"
#include "core/graph/ops/logit_sums.h"
#include "cpu/loss_rows.h"
#include "cpu/parallel.h"
#include "cpu/pixel_loss.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

/// Positions of one sample that are processed together; logit c of position i is x[c * stride_c + i *
/// stride_i].
struct TargetRun {
  const float* x;
  const int32_t* label;
  int64_t position;                                   ///< the first one's, among all of the batch
  int64_t first, classes, stride_c, stride_i, count;  ///< first: position of x among all logits

  float logit(int64_t i, int64_t c) const { return x[c * stride_c + i * stride_i]; }
};

/// Numbering of runs over all samples.
struct TargetRuns {
  explicit TargetRuns(const Shape& logits)
      : sizes(logits),
        is_image(logits.size() == 4),
        length(is_image ? kTilePixels : kRows),
        per_sample((sizes.positions + length - 1) / length),
        runs(sizes.samples * per_sample) {}

  int64_t sample(int64_t run) const { return run / per_sample; }
  int64_t work() const { return length * sizes.classes; }
  TargetRun at(int64_t run, const float* logits, const int32_t* labels) const {
    const int64_t position = run % per_sample * length, row = sample(run) * sizes.positions + position;
    const int64_t first =
        is_image ? sample(run) * sizes.classes * sizes.positions + position : row * sizes.classes;
    return {logits + first,
            labels + row,
            row,
            first,
            sizes.classes,
            is_image ? sizes.positions : 1,
            is_image ? 1 : sizes.classes,
            std::min(length, sizes.positions - position)};
  }

  static constexpr int64_t kRows = 16;  ///< few, so that small batches keep all threads busy
  LogitSizes sizes;
  bool is_image;
  int64_t length, per_sample, runs;
};

struct ClassWeights {
  const float* of;  ///< (C)
  double sum;
};

/// The slot's weights, or ones.
class ClassWeightSlot {
 public:
  ClassWeightSlot(void* const* slot, int64_t classes)
      : slot_(slot), ones_(static_cast<size_t>(classes), 1.0f), classes_(classes) {}
  ClassWeights now() const {
    const float* of = slot_ == nullptr ? ones_.data() : at<const float>(slot_);
    double sum = 0;
    for (int64_t c = 0; c < classes_; ++c) sum += of[c];
    return {of, sum};
  }

 private:
  void* const* slot_;
  std::vector<float> ones_;
  int64_t classes_;
};

void softmax_of(const TargetRun& run, TileFloats& largest, TileFloats& sum) {
  if (run.stride_i == 1) return softmax_sums({run.x, run.classes, run.stride_c, run.count}, largest, sum);
  for (int64_t i = 0; i < run.count; ++i) {
    const float* row = run.x + i * run.stride_i;
    largest[i] = row_max(row, run.classes);
    sum[i] = exp_sum(row, largest[i], run.classes);
  }
}

struct LossOfTargets {
  double loss = 0, weight = 0, valid_targets = 0;
};

LossOfTargets loss_of_targets(const TargetRun& run, const TileFloats& largest, const TileFloats& sum,
                              const CrossEntropySettings& settings, const ClassWeights& weights) {
  const double smoothing = settings.label_smoothing;
  LossOfTargets sums;
  for (int64_t i = 0; i < run.count; ++i) {
    const int32_t label = run.label[i];
    if (label == settings.ignored()) continue;
    const WeightedTarget<double> target{weights.of[label], smoothing,
                                        smoothing / static_cast<double>(run.classes)};
    double weighted = 0;
    for (int64_t c = 0; smoothing > 0 && c < run.classes; ++c) weighted += weights.of[c] * run.logit(i, c);
    const double log_sum = std::log(static_cast<double>(sum[i])) + largest[i], own = run.logit(i, label);
    const double loss = target.loss(log_sum, own, weights.sum, weighted);
    sums.loss += settings.gamma == 0 ? loss : loss * Focus<double>(settings.gamma, own - log_sum).loss;
    sums.weight += target.own;
    ++sums.valid_targets;
  }
  return sums;
}

/// Terms of a position's gradient: dx[c] = share * exp(x[c] - largest) - even * w[c].
struct GradientFactors {
  const float* largest;
  TileFloats share, even;
};

/// By rows, neighbours being classes; without a valid target dx is 0 whatever the values of x.
TRAINER_MULTIVERSION void gradient_by_rows(const TargetRun& run, const OwnClasses& own,
                                           const GradientFactors& f, const float* w, float* dx) {
  const int64_t valid = own.valid;
  for (int64_t i = 0; i < run.count; ++i) {
    const float* x = run.x + i * run.stride_i;
    float* out = dx + i * run.stride_i;
    const float largest = f.largest[i], share = f.share[i], even = f.even[i];
    if (share == 0) {
      std::fill(out, out + run.classes, 0.0f);
      continue;
    }
#pragma omp simd
    for (int64_t c = 0; c < valid; ++c) out[c] = share * math::exp(x[c] - largest) - even * w[c];
    std::fill(out + valid, out + run.classes, 0.0f);
  }
}

/// By classes, neighbours being pixels.
TRAINER_MULTIVERSION void gradient_by_classes(const TargetRun& run, const GradientFactors& f, const float* w,
                                              float* dx) {
  for (int64_t c = 0; c < run.classes; ++c) {
    const float* x = run.x + c * run.stride_c;
    float* out = dx + c * run.stride_c;
    const float weight = w[c];
#pragma omp simd
    for (int64_t i = 0; i < run.count; ++i) {
      const float d = f.share[i] * math::exp(x[i] - f.largest[i]) - f.even[i] * weight;
      out[i] = f.share[i] == 0 ? 0.0f : d;
    }
  }
}

/// The factor for the gradient of a valid target: 1 for cross entropy.
float gradient_focus(const TargetRun& run, int64_t i, double gamma, float largest, float sum) {
  if (gamma == 0) return 1;
  const float log_p = run.logit(i, run.label[i]) - largest - std::log(sum);
  return Focus<float>(static_cast<float>(gamma), log_p).gradient;
}

/// dx may be the logits' own memory.
void write_gradient(const TargetRun& run, const OwnClasses& own_classes, const SoftmaxSlots& softmax,
                    const CrossEntropySettings& settings, const ClassWeights& weights, float scale,
                    float* dx) {
  GradientFactors f{.largest = at<const float>(softmax.largest) + run.position, .share = {}, .even = {}};
  const float* sum = at<const float>(softmax.sum) + run.position;
  TileFloats sharp{};
  const auto smoothing = static_cast<float>(settings.label_smoothing);
  const float even = smoothing / static_cast<float>(own_classes.all);
  for (int64_t i = 0; i < run.count; ++i) {
    const bool is_valid = run.label[i] != settings.ignored();
    const WeightedTarget<float> target{is_valid ? weights.of[run.label[i]] : 0.0f, smoothing, even};
    const float own = is_valid ? scale * gradient_focus(run, i, settings.gamma, f.largest[i], sum[i]) : scale;
    f.share[i] = is_valid ? own * target.share(static_cast<float>(weights.sum)) / sum[i] : 0.0f;
    f.even[i] = own * even;
    sharp[i] = own * target.sharp();
  }
  if (run.stride_c != 1) {  // an image's
    gradient_by_classes(run, f, weights.of, dx);
  } else {
    gradient_by_rows(run, own_classes, f, weights.of + own_classes.first, dx);
  }
  for (int64_t i = 0; i < run.count; ++i) {
    const int64_t label = run.label[i] - own_classes.first;
    if (run.label[i] != settings.ignored() && label >= 0 && label < own_classes.valid)
      dx[label * run.stride_c + i * run.stride_i] -= sharp[i];
  }
}

void put_sums(const LossOfTargets& sums, int64_t positions, const Slots& slots) {
  const double values[] = {sums.loss, sums.weight, sums.valid_targets};
  for (size_t i = 0; i < std::size(values); ++i) {
    if (slots.outputs[i] != nullptr)
      *at<float>(slots.outputs[i]) = static_cast<float>(values[i] / static_cast<double>(positions));
  }
}

/// Sums of runs are found in parallel and added up in order: bitwise identical for any number of threads.
/// Samples of weight 0 do not count, even with NaN.
std::unique_ptr<Kernel> compile_cross_entropy_sums(const OpContext& context, const Choice&,
                                                   const Slots& slots) {
  return kernel([=, settings = static_cast<const CrossEntropySums&>(context.op).settings,
                 runs = TargetRuns(context.inputs[CrossEntropySums::kLogits].shape),
                 kept = SoftmaxSlots::of<CrossEntropySums>(slots.outputs),
                 classes =
                     ClassWeightSlot(slots.inputs[CrossEntropySums::kClassWeights],
                                     LogitSizes(context.inputs[CrossEntropySums::kLogits].shape).classes)] {
    const ClassWeights class_weights = classes.now();
    const float* weights = at<const float>(slots.inputs[CrossEntropySums::kWeights]);
    auto* parts = at<LossOfTargets>(slots.workspace);
    parallel_rows(runs.runs, runs.work(), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const TargetRun run = runs.at(r, at<const float>(slots.inputs[CrossEntropySums::kLogits]),
                                      at<const int32_t>(slots.inputs[CrossEntropySums::kLabels]));
        TileFloats largest, sum;
        softmax_of(run, largest, sum);
        for (int64_t i = 0; i < run.count; ++i) kept.put(run.position + i, {largest[i], sum[i]});
        parts[r] = weights[runs.sample(r)] == 0 ? LossOfTargets{}
                                                : loss_of_targets(run, largest, sum, settings, class_weights);
      }
    });
    LossOfTargets sums;
    for (int64_t r = 0; r < runs.runs; ++r) {
      const double weight = weights[runs.sample(r)];
      sums.loss += weight * parts[r].loss;
      sums.weight += weight * parts[r].weight;
      sums.valid_targets += weight * parts[r].valid_targets;
    }
    put_sums(sums, runs.sizes.positions, slots);
  });
}

std::unique_ptr<Kernel> compile_cross_entropy_sums_backward(const ProcessGroup* group,
                                                            const OpContext& context, const Slots& slots) {
  const int64_t held = LogitSizes(context.inputs[CrossEntropySumsBackward::kLogits].shape).classes;
  const OwnClasses own =
      own_classes(static_cast<const CrossEntropySumsBackward&>(context.op).cut, held, group);
  return kernel([=, settings = static_cast<const CrossEntropySumsBackward&>(context.op).settings,
                 runs = TargetRuns(context.inputs[CrossEntropySumsBackward::kLogits].shape),
                 softmax = SoftmaxSlots::of<CrossEntropySumsBackward>(slots.inputs),
                 classes = ClassWeightSlot(slots.inputs[CrossEntropySumsBackward::kClassWeights], own.all)] {
    const ClassWeights class_weights = classes.now();
    const float scale = *at<const float>(slots.inputs[CrossEntropySumsBackward::kDloss]) /
                        static_cast<float>(runs.sizes.positions);
    parallel_rows(runs.runs, runs.work(), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const TargetRun run = runs.at(r, at<const float>(slots.inputs[CrossEntropySumsBackward::kLogits]),
                                      at<const int32_t>(slots.inputs[CrossEntropySumsBackward::kLabels]));
        write_gradient(
            run, own, softmax, settings, class_weights,
            scale * at<const float>(slots.inputs[CrossEntropySumsBackward::kWeights])[runs.sample(r)],
            at<float>(slots.outputs[CrossEntropySumsBackward::kDlogits]) + run.first);
      }
    });
  });
}

/// As compile_cross_entropy_sums, from all ranks' sums of each position.
std::unique_ptr<Kernel> compile_cross_entropy_sums_of_ranks(const OpContext& context, const Choice&,
                                                            const Slots& slots) {
  using Op = CrossEntropySumsOfRanks;
  const auto& op = static_cast<const Op&>(context.op);
  const Shape& labels = context.inputs[Op::kLabels].shape;
  return kernel([=, settings = op.settings, cut = op.cut, samples = labels[0], rows = numel(labels),
                 kept = SoftmaxSlots::of<CrossEntropySums>(slots.outputs),
                 classes = ClassWeightSlot(slots.inputs[Op::kClassWeights], op.cut.classes)] {
    const ClassWeights class_weights = classes.now();
    const double smoothing = settings.label_smoothing;
    LossOfTargets sums;
    for (int64_t row = 0; row < rows; ++row) {
      const LogitSum whole =
          of_all_ranks(at<const float>(slots.inputs[Op::kSums]), rows, cut.along.ranks, row);
      kept.put(row, {whole.largest, whole.exp_sum});
      const int32_t label = at<const int32_t>(slots.inputs[Op::kLabels])[row];
      const double weight = at<const float>(slots.inputs[Op::kWeights])[row / (rows / samples)];
      if (label == settings.ignored() || weight == 0) continue;
      const WeightedTarget<double> target{class_weights.of[label], smoothing,
                                          smoothing / static_cast<double>(cut.classes)};
      const double log_sum = std::log(static_cast<double>(whole.exp_sum)) + whole.largest;
      sums.loss +=
          weight * target.loss(log_sum, whole.own, class_weights.sum, smoothing > 0 ? whole.all : 0.0);
      sums.weight += weight * target.own;
      sums.valid_targets += weight;
    }
    put_sums(sums, rows / samples, slots);
  });
}

std::unique_ptr<Kernel> compile_mean(const OpContext&, const Choice&, const Slots& slots) {
  return kernel([=] {
    const float given = *at<const float>(slots.inputs[MeanOverTargets::kWeight]),
                weight = given == 0 ? 1.0f : given;
    const float divisor = *at<const float>(slots.inputs[MeanOverTargets::kScale]) * weight;
    const float values[] = {*at<const float>(slots.inputs[MeanOverTargets::kSum]) / weight, 1 / divisor,
                            divisor};
    for (size_t i = 0; i < std::size(values); ++i) {
      if (slots.outputs[i] != nullptr) *at<float>(slots.outputs[i]) = values[i];
    }
  });
}

Choice select_cross_entropy_sums(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_row_major(context, inputs);
  choice.workspace_bytes = TargetRuns(context.inputs[CrossEntropySums::kLogits].shape).runs *
                           static_cast<int64_t>(sizeof(LossOfTargets));
  return choice;
}

/// What one rank judges; exchange_logits makes that of several.
std::optional<std::string> why_not_sums(const OpContext& context) {
  if (static_cast<const CrossEntropySums&>(context.op).cut) return "the ranks share its classes";
  return why_not_low(context);
}

}  // namespace

void add_cross_entropy_sums(Handlers& handlers) {
  handlers[typeid(CrossEntropySums)] = {select_cross_entropy_sums, compile_cross_entropy_sums, why_not_sums};
  handlers[typeid(CrossEntropySumsBackward)] = {
      select_row_major, for_rank(handlers.group(), compile_cross_entropy_sums_backward), why_not_low};
  handlers[typeid(CrossEntropySumsOfRanks)] = {select_row_major, compile_cross_entropy_sums_of_ranks, {}};
  handlers[typeid(MeanOverTargets)] = {select_row_major, compile_mean, {}};
}

}  // namespace trainer::cpu
