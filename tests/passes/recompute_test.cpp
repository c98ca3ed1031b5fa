// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include "tests/catch.h"

#include "core/graph/ops/binary.h"
#include "core/graph/ops/layer_norm.h"
#include "core/graph/ops/linear.h"
#include "core/passes/liveness.h"
#include "tests/passes/draft.h"

using namespace trainer;

namespace {

/// Nodes that recompute; the gradient of weights after each reads it.
std::vector<Node> made_again(const Draft& draft) {
  std::vector<Node> found;
  const std::vector<Node>& nodes = draft.program.entries[0].nodes;
  for (size_t i = 0; i + 1 < nodes.size(); ++i) {
    if (!nodes[i].again) continue;
    found.push_back(nodes[i]);
    CHECK(nodes[i + 1].op->name() == "linear_backward_weights");
    CHECK(nodes[i + 1].inputs[LinearBackwardWeights::kX] == nodes[i].outputs[0]);
  }
  return found;
}

}  // namespace

TEST_CASE("recompute makes an activation again before its gradient is read") {
  Draft draft;
  const elementwise::Function silu = elementwise::Silu{};
  TensorId y = draft.input("x", {256, 64});
  for (const char* name : {"u", "v"}) {
    y = draft.build.emit<Unary>({draft.build.emit<Linear>({y, draft.parameter(name, {64, 64}), kNone})},
                                silu);
  }
  draft.loss(draft.build.emit<Linear>({y, draft.parameter("w", {4, 64}), kNone}));
  run_passes(draft.program, {autodiff()});
  CHECK_FALSE(draft.is_changed_by({recompute({Recompute::Kind::size, int64_t{1} << 20})}));  // it is small
  const auto again = made_again(draft.run({recompute({Recompute::Kind::cheap})}));
  REQUIRE(again.size() == 1);
  CHECK(again[0].op->name() == "silu");
  CHECK(again[0].inputs == draft.program.entries[0].nodes[0].outputs);
}

TEST_CASE("recompute makes what a normalisation gives again from the sum that it gives too") {
  Draft draft;
  TensorId s = draft.input("x", {256, 64});
  for (const char* name : {"t", "u", "v"}) {
    const TensorId y = draft.build.emit<LayerNorm>({s, kNone, kNone, kNone}, 1e-5, true);
    const TensorId branch = draft.build.emit<Linear>({y, draft.parameter(name, {64, 64}), kNone});
    s = draft.build.emit<Binary>({s, branch}, Binary::Kind::add);
  }
  draft.loss(draft.build.emit<Linear>({s, draft.parameter("w", {4, 64}), kNone}));
  run_passes(draft.program, {fuse_residual(), autodiff()});
  const auto again = made_again(draft.run({recompute({Recompute::Kind::cheap})}));
  REQUIRE(again.size() == 2);
  for (const Node& norm : again) {
    CHECK(norm.op->name() == "rms_norm");
    CHECK(norm.inputs[LayerNorm::kResidual] == kNone);
  }
  CHECK(again[0].inputs[LayerNorm::kX] == draft.program.entries[0].nodes[2].outputs[2]);
  CHECK(again[1].inputs[LayerNorm::kX] == draft.program.find("x"));
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
