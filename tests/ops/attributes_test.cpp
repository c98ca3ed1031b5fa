// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include "tests/catch.h"

#include "core/graph/ops/all_reduce.h"
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/concat.h"
#include "core/graph/ops/confusion_cells.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/for_each.h"
#include "core/graph/ops/gated.h"
#include "core/graph/ops/lerp.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/loss_scale.h"
#include "core/graph/ops/optimizer_steps.h"
#include "core/graph/ops/pool2d.h"
#include "core/graph/ops/read_samples.h"
#include "core/graph/ops/resample2d.h"
#include "core/graph/ops/reshape.h"
#include "core/graph/ops/step_guard.h"
#include "core/graph/ops/stochastic_depth.h"
#include "core/graph/ops/sync_batch_norm.h"
#include "core/graph/ops/unary.h"

namespace trainer {
namespace {

AttributeValue value_of(const Operation& op, std::string_view name) {
  for (const Attribute& attribute : attributes_of(op)) {
    if (attribute.name == name) return attribute.value;
  }
  FAIL(op.name() << " has no attribute " << name);
  return false;
}

const Conv2dGeometry kPlain{.kernel = {3, 5}, .stride = {2, 1}, .padding = {1, 2}};
const Conv2dGeometry kGrouped{.kernel = {3, 3}, .dilation = {2, 3}, .groups = 4};

}  // namespace

TEST_CASE("the text of an operation's attributes stays what it is") {
  CHECK(attributes_text(Binary(Binary::Kind::add)).empty());
  CHECK(attributes_text(Binary(Binary::Kind::add, true, 6)) == "relu ceiling=6");
  CHECK(attributes_text(BroadcastStart(4, 3)) == "number=4 root=3");
  CHECK(attributes_text(AllReduceStart(1, Axis::replicas)) == "number=1 axis=replicas");
  CHECK(attributes_text(CollectiveDone(0, 1)) == "number=0");
  CHECK(attributes_text(Reshape({2, 3})).empty());
  CHECK(attributes_text(Conv2d(kPlain)) == "kernel=3x5 stride=2x1 padding=1x2");
  CHECK(attributes_text(Conv2d(kPlain, true, true)) == "kernel=3x5 stride=2x1 padding=1x2 relu moments");
  CHECK(attributes_text(Conv2d(kGrouped, true)) ==
        "kernel=3x3 stride=1x1 padding=0x0 dilation=2x3 groups=4 relu");
  CHECK(attributes_text(Conv2dBackwardData(kPlain, {1, 1, 9, 9})) == "kernel=3x5 stride=2x1 padding=1x2");
  CHECK(attributes_text(Conv2dBackwardWeights(kPlain, {1, 1, 3, 5}, true)) ==
        "kernel=3x5 stride=2x1 padding=1x2");
  CHECK(attributes_text(Conv2dBackwardWeights(kPlain, {1, 1, 3, 5}, true, DType::f16)) ==
        "kernel=3x5 stride=2x1 padding=1x2 dtype=f16");
  CHECK(attributes_text(MaxPool2d(kPlain)) == "kernel=3x5 stride=2x1 padding=1x2");
  CHECK(attributes_text(AvgPool2dBackward(kPlain, {1, 1, 9, 9})) == "kernel=3x5 stride=2x1 padding=1x2");
  CHECK(attributes_text(Linear()).empty());
  CHECK(attributes_text(Linear(LinearFunction::relu)) == "relu");
  CHECK(attributes_text(Linear(LinearFunction::gelu_tanh, true)) == "transposed gelu_tanh");
  CHECK(attributes_text(Linear(LinearFunction::relu_with_mask)) == "relu mask");
  CHECK(attributes_text(LinearBackwardData({2, 3}, false, true)) == "gelu_tanh");
  CHECK(attributes_text(LinearBackwardData({2, 3}, false, false, 0.25)) == "factor=0.25");
  CHECK(attributes_text(BatchNorm(1e-5)) == "eps=1e-05");
  CHECK(attributes_text(BatchNormBackward(1.0 / 3, true, true)) == "eps=0.333333 relu residual");
  CHECK(attributes_text(BatchNormMoments(4)) == "ranks=4");
  CHECK(attributes_text(BatchNormSums(1e-5, 4, true)) == "eps=1e-05 ranks=4 residual");
  CHECK(attributes_text(Lerp(1 - 0.9999)) == "share=0.0001");
  CHECK(attributes_text(Lerp(0.1, 128.0 / 127)) == "share=0.1 scale=1.00787");
  CHECK(attributes_text(Cast(DType::bf16)) == "to=bf16");
  CHECK(attributes_text(ForEach({std::make_shared<Cast>(DType::bf16)}, 1, 1)) == "to=bf16");
  CHECK(attributes_text(ForEach({std::make_shared<Lerp>(0.1), std::make_shared<Lerp>(0.1, 9.0 / 8)}, 2, 1)) ==
        "share=0.1 scale=1 and 1.125");
  CHECK(attributes_text(ForEach({std::make_shared<Lerp>(0.1), std::make_shared<Lerp>(0.1)}, 2, 1)) ==
        "share=0.1");
  CHECK(attributes_text(Concat(1)) == "axis=1");
  CHECK(attributes_text(Slice(1, 2, 3)) == "axis=1 begin=2 length=3");
  CHECK(attributes_text(CrossEntropy(0)).empty());
  CHECK(attributes_text(CrossEntropyBackward(0.1234567)) == "label_smoothing=0.1234567");
  CHECK(attributes_text(CrossEntropySums({.gamma = 0.5})) == "gamma=0.5");
  CHECK(attributes_text(TopK(5)) == "k=5");
  CHECK(attributes_text(ConfusionCells()).empty());
  CHECK(attributes_text(ConfusionCells(255)) == "ignored=255");
  CHECK(attributes_text(StochasticDepth({.p = 0.2, .key = 0xab})) == "p=0.2 key=00000000000000ab");
  CHECK(attributes_text(Unscale(std::nullopt)).empty());
  CHECK(attributes_text(Unscale(std::numeric_limits<double>::infinity())) == "max_norm=inf");
  CHECK(attributes_text(UpdateLossScale({})) == "growth=2 backoff=0.5 interval=2000 smallest=1");
  CHECK(attributes_text(ClipByNorm(2)) == "max_norm=2");
  CHECK(attributes_text(ClipByNorm(1, 0.5, true)) == "max_norm=1 eps=0.5 lengthens");
  CHECK(attributes_text(StepGuard(0, 0, false)).empty());
  CHECK(attributes_text(StepGuard(0, 6, true)) == "norm_sigmas=6 scaled");
  CHECK(attributes_text(Resample2d(Resampling::bilinear_aligned, {4, 4})) == "bilinear align_corners");
  CHECK(attributes_text(Resample2dBackward(Resampling::nearest, {1, 1, 4, 4})) == "nearest");
  CHECK(attributes_text(Unary(elementwise::Relu{})).empty());
  CHECK(attributes_text(UnaryBackward(elementwise::HardTanh{})) == "min_value=-1 max_value=1");
  CHECK(attributes_text(Gated(elementwise::Elu{})) == "alpha=1");
  CHECK(attributes_text(GatedBackward(elementwise::Silu{})).empty());
}

TEST_CASE("the text of an optimizer's attributes names each weight decay once") {
  CHECK(attributes_text(OptimizerStep(update::Sgd{.momentum = 0.9, .nesterov = true}, {{0.1}, {0}, {0.1}})) ==
        "momentum=0.9 nesterov weight_decay=0.1 and 0 parameters=3");
  CHECK(attributes_text(OptimizerStep(update::Sgd{}, {{0, 0.5}, {0, 2}})) ==
        "momentum=0 weight_decay=0 lr_factor=0.5 and 2 parameters=2");
  CHECK(attributes_text(OptimizerStep(update::Lars{}, {{0.5}})) ==
        "momentum=0.9 trust_coefficient=0.001 eps=1e-08 weight_decay=0.5 parameters=1");
  update::AdamW adamw;
  adamw.beta2 = 0.9999999;
  CHECK(attributes_text(OptimizerStep(adamw, {{0}, {0}})) ==
        "beta1=0.9 beta2=0.9999999 eps=1e-08 weight_decay=0 parameters=2");
}

TEST_CASE("the steps of samples read on the device are attributes of their own") {
  SampleSteps steps{.count = 3, .key = 7};
  steps.steps[0] = {.mirrors = true, .p = 0.5};
  steps.steps[1] = {.padding = 4, .height = 32, .width = 24};
  steps.steps[2] = {.mirrors = true, .p = 0.25};
  const ReadSamples op(steps);
  CHECK(attributes_text(op) == "mirror=0.5 window=32x24 padding=4 mirror=0.25");
  CHECK(std::get<double>(value_of(op, "mirror.0")) == 0.5);
  CHECK(std::get<double>(value_of(op, "mirror.2")) == 0.25);
  CHECK(std::get<Size2d>(value_of(op, "window.1")) == Size2d{32, 24});
  CHECK(std::get<std::string>(value_of(op, "key")) == "0000000000000007");
}

TEST_CASE("attributes have types, and those that the text leaves out are there") {
  const Conv2d convolution(kGrouped);
  CHECK(std::get<Size2d>(value_of(convolution, "kernel")) == Size2d{3, 3});
  CHECK(std::get<int64_t>(value_of(convolution, "groups")) == 4);
  CHECK_FALSE(std::get<bool>(value_of(convolution, "relu")));
  CHECK(std::get<int64_t>(value_of(Conv2d(kPlain), "groups")) == 1);
  CHECK(std::get<double>(value_of(BatchNorm(1.0 / 3), "eps")) == 1.0 / 3);
  CHECK(std::get<std::string>(value_of(Cast(DType::f16), "to")) == "f16");
  CHECK(std::get<std::vector<int64_t>>(value_of(Reshape({2, 3}), "shape")) == Shape{2, 3});
  CHECK(std::get<std::vector<double>>(value_of(OptimizerStep(update::Sgd{}, {{0.1}, {0}, {0.1}}),
                                               "weight_decay")) == std::vector<double>{0.1, 0, 0.1});
  CHECK(std::get<double>(value_of(OptimizerStep(update::AdamW{}, {{0}}), "beta2")) == 0.999);
  CHECK(std::get<std::vector<int64_t>>(value_of(OptimizerStep(update::Lars{}, {{.adapts = true}, {}}),
                                                "adapts")) == std::vector<int64_t>{1, 0});
}

}  // namespace trainer
