// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/engine/backend_library.h"
#include "core/graph/ops/conv2d.h"
#include "tests/cudnn/devices.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

struct Kind {
  int64_t channels, size, outputs, kernel, stride;
};

/// All distinct ones of ResNet-18 and ResNet-50 at 224x224, and of ResNet-18 for 32x32.
const std::vector<Kind> kResidual = {
    {3, 224, 64, 7, 2},    {64, 56, 64, 1, 1},    {64, 56, 64, 3, 1},     {64, 56, 256, 1, 1},
    {256, 56, 64, 1, 1},   {256, 56, 128, 1, 1},  {256, 56, 512, 1, 2},   {128, 56, 128, 3, 2},
    {128, 28, 128, 3, 1},  {128, 28, 512, 1, 1},  {512, 28, 128, 1, 1},   {512, 28, 256, 1, 1},
    {512, 28, 1024, 1, 2}, {256, 28, 256, 3, 2},  {256, 14, 256, 3, 1},   {256, 14, 1024, 1, 1},
    {1024, 14, 256, 1, 1}, {1024, 14, 512, 1, 1}, {1024, 14, 2048, 1, 2}, {512, 14, 512, 3, 2},
    {512, 7, 512, 3, 1},   {512, 7, 2048, 1, 1},  {2048, 7, 512, 1, 1},   {64, 56, 128, 3, 2},
    {64, 56, 128, 1, 2},   {128, 28, 256, 3, 2},  {128, 28, 256, 1, 2},   {256, 14, 512, 3, 2},
    {256, 14, 512, 1, 2},  {3, 32, 64, 3, 1},     {64, 32, 64, 3, 1}};

Conv2d measuring(const Kind& kind, int64_t groups = 1, bool relu = false) {
  const int64_t padding = kind.kernel / 2;
  return Conv2d({.kernel = {kind.kernel, kind.kernel},
                 .stride = {kind.stride, kind.stride},
                 .padding = {padding, padding},
                 .groups = groups},
                relu, true);
}

OpContext measured(const Conv2d& op, const Kind& kind, DType dtype) {
  OpContext context{.op = op, .inputs = {}, .outputs = {}};
  context.inputs = {{{64, kind.channels, kind.size, kind.size}, dtype},
                    {{kind.outputs, kind.channels / op.geometry.groups, kind.kernel, kind.kernel}, dtype}};
  context.inputs.resize(Conv2d::kInputs);
  context.outputs = op.infer(context.inputs);
  return context;
}

std::unique_ptr<Planner> planner_of(const std::string& name) {
  const DeviceDescription device = shipped_device(name);
  return load_backend("cuda", BackendRequest{.described = &device}).planner;
}

}  // namespace

TEST_CASE(
    "every convolution of ResNet-18 and ResNet-50 but the first has an engine that sums its output in f16 "
    "and bf16") {
  const std::string name = GENERATE("a100", "h200", "b200");
  const auto gpu = planner_of(name);
  for (const Kind& kind : kResidual) {
    for (const DType low : {DType::f16, DType::bf16}) {
      const Conv2d op = measuring(kind);
      const OpContext context = measured(op, kind, low);
      const auto refusal = gpu->why_not(context);
      CAPTURE(name, to_string(context.inputs[Conv2d::kX].shape),
              to_string(context.inputs[Conv2d::kWeight].shape), to_string(low));
      CAPTURE(refusal.value_or(""));
      REQUIRE(refusal.has_value() == (kind.channels == 3));
      if (refusal) continue;
      const Choice choice = gpu->select(context, OpenLayouts(3));
      CHECK(choice.implementation == "cudnn");
      CHECK(choice.algorithm.starts_with("e"));
      CHECK(choice.outputs[Conv2d::kSums].row_major());
      CHECK(choice.workspace_bytes >= 2 * kind.outputs * 4);  // the sums
    }
  }
}

TEST_CASE(
    "moments of f32, of grouped convolutions and of what a relu leaves are no engine's, with the reason") {
  const auto gpu = planner_of(GENERATE("a100", "h200", "b200"));
  const Kind kind{64, 56, 64, 3, 1};
  const auto reason = [&](const Conv2d& op, DType dtype) {
    return gpu->why_not(measured(op, kind, dtype)).value_or("");
  };
  CHECK_THAT(reason(measuring(kind), DType::f32), ContainsSubstring("too inexact for the moments of f32"));
  CHECK_THAT(reason(measuring(kind, 1, true), DType::f16), ContainsSubstring("before bias and relu"));
  CHECK_THAT(reason(measuring(kind, 64), DType::f16), ContainsSubstring("for forward f16 x=64x64x56x56"));
}

}  // namespace trainer
