// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/graph/builder.h"
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/conv2d.h"
#include "core/passes/table.h"
#include "tests/passes/draft.h"
#include "tests/passes/trained.h"
#include "tests/reference/backend.h"
#include "tests/reference/networks.h"

using namespace trainer;

namespace {

/// Normalisations with a relu, with a residual and a relu, and with neither, of a convolution's output and of
/// a pool's.
const char* const kResidual =
    "{input: [3, 9, 9], layers: [{conv2d: {out_channels: 8, kernel_size: 3, bias: false}}, batch_norm, "
    "{relu: {name: skip}}, {conv2d: {out_channels: 8, kernel_size: 3, padding: 1, bias: false}}, "
    "{batch_norm: {name: inner}}, {add: {inputs: [inner, skip]}}, relu, "
    "{conv2d: {out_channels: 5, kernel_size: 3, bias: false}}, {max_pool2d: 2}, {batch_norm: {momentum: "
    "0.3}}, relu, "
    "{conv2d: {out_channels: 4, kernel_size: 1, bias: false}}, batch_norm, "
    "flatten, {linear: 10}]}";

/// A convolution whose output two normalisations read, and a normalised parameter.
void draft_two(Draft& draft) {
  const TensorId x = draft.input("x", {2, 3, 4, 4}), w = draft.parameter("w", {3, 3, 3, 3});
  const TensorId gamma = draft.parameter("gamma", {3}), beta = draft.parameter("beta", {3});
  const TensorId conv = draft.build.emit<Conv2d>({x, w, kNone}, Conv2dGeometry{.kernel = {3, 3}});
  for (const TensorId from : {conv, x, conv}) {
    const auto op = std::make_shared<BatchNorm>(from == x ? 1e-5 : 1e-3);
    draft.output("y", draft.build.emit_all(op, {from, gamma, beta, kNone})[0]);
  }
}

}  // namespace

TEST_CASE("fuse_moments lets a convolution measure what normalisations of its output read") {
  Draft draft;
  draft_two(draft);
  const Backend reference = make_reference_backend();
  CHECK(draft.run({fuse_moments(*reference.planner), dead_code()}).calls() ==
        Calls{"conv2d(x, w, -, -, -, -) {kernel=3x3 stride=1x1 padding=0x0 moments}",
              "batch_norm(conv2d, gamma, beta, -, -, conv2d.1, conv2d.2) {eps=0.001}",
              "batch_norm(x, gamma, beta, -, -, -, -) {eps=1e-05}",
              "batch_norm(conv2d, gamma, beta, -, -, conv2d.1, conv2d.2) {eps=0.001}"});
}

TEST_CASE("fuse_moments leaves a program as it is where the device's planner refuses") {
  Draft draft;
  draft_two(draft);
  CHECK_FALSE(draft.is_changed_by({fuse_moments(RefusingPlanner())}));
}

TEST_CASE("steps with and without fuse_moments are the same, with recompute and micro-batches too") {
  const auto kind = GENERATE(Recompute::Kind::none, Recompute::Kind::full);
  const int64_t micro_batches = GENERATE(int64_t{1}, int64_t{2});
  const Backend reference = make_reference_backend();
  check_same_as_without_planner(kResidual,
                                {.passes = {.recompute = {.kind = kind}, .planner = reference.planner.get()},
                                 .micro_batches = micro_batches});
}

TEST_CASE("a normalisation over several ranks keeps the table that it has") {
  Program program = forward_program(network_from(kResidual), kRowsOfTrained);
  const Backend reference = make_reference_backend();
  run_passes(program, {autodiff(), sync_batch_norm(2)});
  const std::string before = to_text(program);
  run_passes(program, {fuse_moments(*reference.planner)});
  CHECK(to_text(program) == before);
}
