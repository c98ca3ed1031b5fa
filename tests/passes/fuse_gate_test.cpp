// SPDX-License-Identifier: Apache-2.0
#include "core/graph/builder.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/unary.h"
#include "tests/catch.h"
#include "tests/passes/draft.h"

using namespace trainer;

namespace {

struct GateDraft : Draft {
  TensorId linear(const char* name) { return build.emit<Linear>({x, parameter(name, {8, 8}), kNone}); }
  TensorId silu(TensorId of) { return build.emit<Unary>({of}, elementwise::Function(elementwise::Silu{})); }
  TensorId product(TensorId a, TensorId b) { return build.emit<Binary>({a, b}, Binary::Kind::mul); }

  TensorId x = input("x", {4, 8});
};

}  // namespace

TEST_CASE("SwiGLU is one node forward and one backward, on either side of the product") {
  for (const bool gate_first : {true, false}) {
    GateDraft draft;
    const TensorId opened = draft.silu(draft.linear("gate")), up = draft.linear("up");
    draft.loss(gate_first ? draft.product(opened, up) : draft.product(up, opened));
    draft.run({fuse_gate(), autodiff()});
    CHECK(draft.calls("silu_gate") == Calls{"silu_gate(linear, linear)"});
    CHECK(draft.calls("silu_gate_backward") ==
          Calls{"silu_gate_backward(cross_entropy_backward, linear, linear)"});
    CHECK(draft.calls("silu").empty());
    CHECK(draft.calls("mul").empty());
    // The gate is the first operand.
    const Node& node = *std::ranges::find(draft.program.entries[0].nodes, "silu_gate",
                                          [](const Node& each) { return each.op->name(); });
    CHECK(node.inputs == std::vector<TensorId>{draft.program.entries[0].nodes[0].outputs[0], up});
  }
}

TEST_CASE("a function whose result is read elsewhere is no gate") {
  const auto untouched = [](const auto& finish) {
    GateDraft draft;
    finish(draft);
    CHECK_FALSE(draft.is_changed_by({fuse_gate()}));
  };
  untouched([](GateDraft& draft) {
    const TensorId opened = draft.silu(draft.linear("gate"));
    draft.output("opened", opened);
    draft.output("y", draft.product(opened, draft.linear("up")));
  });
  untouched([](GateDraft& draft) {
    const TensorId opened = draft.silu(draft.linear("gate"));
    draft.output("square", draft.product(opened, opened));
  });
  untouched([](GateDraft& draft) {
    const TensorId sum =
        draft.build.emit<Binary>({draft.silu(draft.linear("gate")), draft.linear("up")}, Binary::Kind::add);
    draft.output("y", draft.product(sum, draft.x));
  });
}

TEST_CASE("of two functions that are multiplied the first is the gate") {
  GateDraft draft;
  const TensorId opened = draft.silu(draft.linear("gate")), up = draft.relu(draft.linear("up"));
  draft.output("y", draft.product(opened, up));
  CHECK(draft.run({fuse_gate()}).calls() ==
        Calls{"linear(x, gate, -, -)", "linear(x, up, -, -)", "relu(linear)", "silu_gate(linear, relu)"});
}
