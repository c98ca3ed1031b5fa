// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "cpu/backend.h"
#include "tests/passes/draft.h"

using namespace trainer;

namespace {

TensorId sum(Draft& draft, TensorId a, TensorId b) {
  return draft.build.emit<Binary>({a, b}, Binary::Kind::add);
}

/// y = relu(conv(x) + r), all of them inputs.
Draft with_residual() {
  Draft draft;
  const TensorId x = draft.input("x", {2, 3, 5, 5}), w = draft.input("w", {4, 3, 1, 1}),
                 r = draft.input("r", {2, 4, 5, 5});
  draft.output("y", draft.relu(sum(draft, r, draft.build.emit<Conv2d>({x, w}, Conv2dGeometry{}))));
  return draft;
}

}  // namespace

TEST_CASE("a convolution takes the sum behind it, and then the relu behind that") {
  const Backend cpu = make_cpu_backend(1);
  Draft draft = with_residual();
  draft.run({fuse_addend(cpu.planner.get()), fuse_relu()});
  CHECK(draft.calls() == Calls{"conv2d(x, w, -, -, -, r) {kernel=1x1 stride=1x1 padding=0x0 relu}"});
}

TEST_CASE("a sum stays where the device adds none in a product, or a gradient passes") {
  const RefusingPlanner refusing;
  CHECK_FALSE(with_residual().is_changed_by({fuse_addend(&refusing)}));
  const Backend cpu = make_cpu_backend(1);
  Draft draft;
  const TensorId x = draft.input("x", {2, 3}), w = draft.parameter("w", {4, 3}), r = draft.input("r", {2, 4});
  draft.loss(sum(draft, draft.build.emit<Linear>({x, w}), r));
  CHECK_FALSE(draft.is_changed_by({fuse_addend(cpu.planner.get())}));
}

TEST_CASE("of two products that are added the later takes the sum; one that is read twice keeps its result") {
  const Backend cpu = make_cpu_backend(1);
  Draft draft;
  const TensorId x = draft.input("x", {2, 3}), w = draft.input("w", {3, 3});
  const TensorId first = draft.build.emit<Linear>({x, w}), second = draft.build.emit<Linear>({first, w});
  const TensorId both = sum(draft, second, first);
  const TensorId third = draft.build.emit<Linear>({both, w});
  draft.output("y", sum(draft, third, draft.relu(third)));
  draft.run({fuse_addend(cpu.planner.get())});
  CHECK(draft.calls("linear") ==
        Calls{"linear(x, w, -, -)", "linear(linear, w, -, linear)", "linear(linear, w, -, -)"});
  CHECK(draft.calls("add").size() == 1);
}
