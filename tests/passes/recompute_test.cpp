// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include "tests/catch.h"

#include "core/graph/ops/binary.h"
#include "core/graph/ops/layer_norm.h"
#include "core/graph/ops/linear.h"
#include "core/passes/liveness.h"
#include "tests/passes/draft.h"

using namespace trainer;

TEST_CASE("recompute makes an activation again before its gradient is read") {
  Draft draft;
  const elementwise::Function silu = elementwise::Silu{};
  TensorId y = draft.input("x", {256, 64});
  for (const char* name : {"u", "v"}) {
    y = draft.build.emit<Unary>({draft.build.emit<Linear>({y, draft.parameter(name, {64, 64}), kNone})},
                                silu);
  }
  const TensorId logits = draft.build.emit<Linear>({y, draft.parameter("w", {4, 64}), kNone});
  const TensorId labels = draft.input("labels", {256}, DType::i32), weights = draft.input("weights", {256});
  draft.output(output_name::kLoss, draft.build.emit<CrossEntropy>({logits, labels, weights}, 0.0));
  run_passes(draft.program, {autodiff()});
  const std::string before = to_text(draft.program);
  run_passes(draft.program, {recompute({Recompute::Kind::size, int64_t{1} << 20})});
  CHECK(to_text(draft.program) == before);  // it is small enough as it is
  CHECK(draft.after({recompute({Recompute::Kind::cheap})}) == R"(
entry train_step
 forward:
  %2: f32[256,64] = linear(@x, @u, -, -)
  %3: f32[256,64] = silu(%2)
  %5: f32[256,64] = linear(%3, @v, -, -)
  %6: f32[256,64] = silu(%5)
  %8: f32[256,4] = linear(%6, @w, -, -)
  %11: f32[1] = cross_entropy(%8, @labels, @weights, -, -)
 backward:
  %13: f32[256,4] = cross_entropy_backward(@one, %8, @labels, @weights, -, -)
  %14: f32[256,64] = linear_backward_data(%13, @w, -, -)
  %15: f32[4,64] = linear_backward_weights(%6, %13, -)
  %16: f32[256,64] = silu_backward(%14, %5)
  %17: f32[256,64] = linear_backward_data(%16, @v, -, -)
  %21: f32[256,64] = silu(%2)
  %18: f32[64,64] = linear_backward_weights(%21, %16, -)
  %19: f32[256,64] = silu_backward(%17, %2)
  %20: f32[64,64] = linear_backward_weights(@x, %19, -)
  output loss = %11
)");
}

TEST_CASE("recompute makes what a normalisation gives again from the sum that it gives too") {
  Draft draft;
  TensorId s = draft.input("x", {256, 64});
  for (const char* name : {"t", "u", "v"}) {
    const TensorId y = draft.build.emit<LayerNorm>({s, kNone, kNone, kNone}, 1e-5, true);
    const TensorId branch = draft.build.emit<Linear>({y, draft.parameter(name, {64, 64}), kNone});
    s = draft.build.emit<Binary>({s, branch}, Binary::Kind::add);
  }
  const TensorId logits = draft.build.emit<Linear>({s, draft.parameter("w", {4, 64}), kNone});
  const TensorId labels = draft.input("labels", {256}, DType::i32), weights = draft.input("weights", {256});
  draft.output(output_name::kLoss, draft.build.emit<CrossEntropy>({logits, labels, weights}, 0.0));
  run_passes(draft.program, {fuse_residual(), autodiff()});
  CHECK(draft.after({recompute({Recompute::Kind::cheap})}) == R"(
entry train_step
 forward:
  %1: f32[256,64], %2: f32[256] = rms_norm(@x, -, -, -) {eps=1e-05}
  %4: f32[256,64] = linear(%1, @t, -, -)
  %6: f32[256,64], %7: f32[256], %5: f32[256,64] = rms_norm(@x, -, -, %4) {eps=1e-05}
  %9: f32[256,64] = linear(%6, @u, -, -)
  %11: f32[256,64], %12: f32[256], %10: f32[256,64] = rms_norm(%5, -, -, %9) {eps=1e-05}
  %14: f32[256,64] = linear(%11, @v, -, -)
  %15: f32[256,64] = add(%10, %14)
  %17: f32[256,4] = linear(%15, @w, -, -)
  %20: f32[1] = cross_entropy(%17, @labels, @weights, -, -)
 backward:
  %22: f32[256,4] = cross_entropy_backward(@one, %17, @labels, @weights, -, -)
  %23: f32[256,64] = linear_backward_data(%22, @w, -, -)
  %24: f32[4,64] = linear_backward_weights(%15, %22, -)
  %25: f32[256,64] = linear_backward_data(%23, @v, -, -)
  %26: f32[64,64] = linear_backward_weights(%11, %23, -)
  %27: f32[256,64], %28: f32[64], %29: f32[64] = rms_norm_backward(%25, %10, -, %12, -, %23)
  %30: f32[256,64] = linear_backward_data(%27, @u, -, -)
  %36: f32[256,64], - = rms_norm(%5, -, -, -) {eps=1e-05}
  %31: f32[64,64] = linear_backward_weights(%36, %27, -)
  %32: f32[256,64], %33: f32[64], %34: f32[64] = rms_norm_backward(%30, %5, -, %7, -, %27)
  %37: f32[256,64], - = rms_norm(@x, -, -, -) {eps=1e-05}
  %35: f32[64,64] = linear_backward_weights(%37, %32, -)
  output loss = %20
)");
}

TEST_CASE("of two outputs only one is written over an input that dies") {
  Draft draft;
  const TensorId x = draft.relu(draft.input("x", {8, 16})), residual = draft.input("residual", {8, 16});
  const std::vector<TensorId> all =
      draft.build.emit_all(std::make_shared<LayerNorm>(1e-5, true), {x, kNone, kNone, residual});
  draft.output("y", all[0]);
  draft.output("s", all[2]);
  CHECK(peak_live_bytes(draft.program, draft.program.entries[0]) == 4 * (2 * 8 * 16 + 8));
}

TEST_CASE("a chain of recomputed activations may be as long as a network is deep") {
  constexpr int kLayers = 30'000;
  Draft draft;
  TensorId y = draft.input("x", {4, 8});
  const elementwise::Function silu = elementwise::Silu{};
  y = draft.build.emit<Linear>({y, draft.parameter("w", {8, 8}), kNone});
  for (int i = 0; i < kLayers; ++i) y = draft.build.emit<Unary>({y}, silu);
  draft.loss(y);
  // Every activation waits for the one before it when the last is wanted again, and all are tried at once.
  run_passes(draft.program, {autodiff(), recompute({Recompute::Kind::full})});
  const std::vector<Node>& nodes = draft.program.entries[0].nodes;
  CHECK(std::ranges::count_if(nodes, &Node::again) > kLayers / 2);
}
