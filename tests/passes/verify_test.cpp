// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include "tests/catch.h"

#include "core/graph/ops/assign.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/lerp.h"
#include "core/graph/ops/reshape.h"
#include "core/graph/ops/unary.h"
#include "core/passes/pass.h"

using namespace trainer;

namespace {

/// y = relu(x); s := y. Each test breaks it in one way.
struct CheckedDraft {
  Program program{.tensors = {}, .entries = {Entry("run")}};
  Builder build{program, program.entries[0]};
  TensorId x = program.input("x", {{4}, DType::f32});
  TensorId s = program.persistent("s", {{4}, DType::f32}, Role::state, {});
  TensorId y = relu(x);

  CheckedDraft() {
    build.assign(s, y);
    verify(program);
  }
  TensorId relu(TensorId of) { return build.emit<Unary>({of}, elementwise::Function(elementwise::Relu{})); }
  std::vector<Node>& nodes() { return program.entries[0].nodes; }
};

std::string complaint(const Program& program) {
  try {
    verify(program);
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "fine";
}

}  // namespace

TEST_CASE("verify finds a tensor used before it has a value") {
  CheckedDraft draft;
  std::swap(draft.nodes()[0], draft.nodes()[1]);
  CHECK(complaint(draft.program).find("uses a tensor before it has a value") != std::string::npos);
  CheckedDraft output;
  output.program.entries[0].outputs.push_back(
      {"z",
       output.program.add({.name = "", .spec = {{4}, DType::f32}, .role = Role::activation, .initial = {}})});
  CHECK(complaint(output.program).find("output z uses a tensor before it has a value") != std::string::npos);
}

TEST_CASE("verify finds a tensor defined twice") {
  CheckedDraft draft;
  draft.nodes().insert(draft.nodes().begin(), draft.nodes()[0]);
  CHECK(complaint(draft.program).find("defines a tensor that already has a value") != std::string::npos);
  CheckedDraft input;
  input.nodes()[0].outputs[0] = input.s;
  CHECK(complaint(input.program).find("defines a tensor that already has a value") != std::string::npos);
}

TEST_CASE("verify finds outputs that are not what the operation infers") {
  CheckedDraft shape;
  shape.program.tensors[static_cast<size_t>(shape.y)].spec.shape = {5};
  CHECK(complaint(shape.program).find("has an output of another shape than it infers") != std::string::npos);
  CheckedDraft count;
  count.nodes()[0].outputs.push_back(kNone);
  CHECK(complaint(count.program).find("has the wrong number of outputs") != std::string::npos);
  CheckedDraft operands;
  operands.nodes()[0].inputs.push_back(operands.x);
  CHECK(complaint(operands.program).find("has the wrong number of inputs") != std::string::npos);
}

TEST_CASE("an optional input that is left out has its place, and verify finds where it has none") {
  CheckedDraft draft;
  const TensorId averaged = draft.build.emit<Lerp>({draft.x, draft.x}, 0.1);
  Node& lerp = draft.nodes().back();
  CHECK(lerp.outputs[Lerp::kY] == averaged);
  CHECK(lerp.inputs == std::vector<TensorId>{draft.x, draft.x, kNone});
  CHECK(complaint(draft.program) == "fine");
  lerp.inputs.pop_back();
  CHECK(complaint(draft.program).find("has the wrong number of inputs") != std::string::npos);
}

TEST_CASE("verify finds states that are used after they were assigned, themselves or as a view") {
  CheckedDraft read;
  read.relu(read.s);
  CHECK(complaint(read.program).find("uses a state after it was assigned") != std::string::npos);
  CheckedDraft twice;
  twice.build.assign(twice.s, twice.y);
  CHECK(complaint(twice.program).find("uses a state after it was assigned") != std::string::npos);
  CheckedDraft view;
  const TensorId seen = view.build.emit<Reshape>({view.s}, Shape{2, 2});
  std::rotate(view.nodes().begin(), view.nodes().end() - 1, view.nodes().end());
  CHECK(complaint(view.program) == "fine");
  view.relu(seen);
  CHECK(complaint(view.program).find("uses a state after it was assigned") != std::string::npos);
}

TEST_CASE("verify finds an assign to what does not persist") {
  CheckedDraft draft;
  draft.build.assign(draft.x, draft.y);
  CHECK(complaint(draft.program).find("assigns to a tensor that does not persist") != std::string::npos);
}

TEST_CASE("a pass that breaks a program is caught at once") {
  CheckedDraft draft;
  const Pass breaks{.name = "breaks", .help = "", .optional = true, .run = [](Program& program) {
                      program.entries[0].nodes.erase(program.entries[0].nodes.begin());
                    }};
  bool observed = false;
  CHECK_THROWS_AS(run_passes(draft.program, {breaks}, [&](const auto&, const auto&) { observed = true; }),
                  std::logic_error);
  CHECK_FALSE(observed);
}
