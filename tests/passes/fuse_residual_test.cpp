// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/graph/ops/binary.h"
#include "core/graph/ops/layer_norm.h"
#include "tests/passes/draft.h"

using namespace trainer;

TEST_CASE("a residual stream is added up in the layer normalisation behind it, and its gradients too") {
  Draft draft;
  const TensorId x = draft.parameter("x", {2, 3}), branch = draft.parameter("branch", {2, 3});
  auto norm = [&](TensorId of) { return draft.build.emit<LayerNorm>({of, kNone, kNone, kNone}, 1e-5, true); };
  const TensorId s = draft.build.emit<Binary>({norm(x), branch}, Binary::Kind::add);
  draft.loss(draft.build.emit<Binary>({s, norm(s)}, Binary::Kind::mul));
  run_passes(draft.program, {fuse_residual(), autodiff(), fuse_gradient_sum()});
  CHECK(draft.calls("add").empty());
  CHECK(draft.calls("rms_norm").size() == 2);
  const Node& second = draft.program.entries[0].nodes[1];
  REQUIRE(second.outputs.size() == 3);
  CHECK(second.inputs[LayerNorm::kResidual] == branch);
  CHECK(second.outputs[2] == s);
}

TEST_CASE("a sum that something reads before its layer normalisation stays where it is") {
  Draft draft;
  const TensorId x = draft.parameter("x", {2, 3}), branch = draft.parameter("branch", {2, 3});
  const TensorId s = draft.build.emit<Binary>({x, branch}, Binary::Kind::add);
  const TensorId early = draft.relu(s);
  const TensorId y = draft.build.emit<LayerNorm>({s, kNone, kNone, kNone}, 1e-5, false);
  draft.output("y", draft.build.emit<Binary>({early, y}, Binary::Kind::mul));
  CHECK_FALSE(draft.is_changed_by({fuse_residual()}));
}
