// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/graph/builder.h"
#include "core/graph/operation.h"
#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/linear.h"
#include "core/step/stages.h"

using namespace trainer;

namespace {

/// Two linear layers that share weights, in mixed precision, differentiated and split.
Program draft(int64_t micro_batches, const Recompute& setting = {}) {
  Program program{.tensors = {}, .entries = {Entry(entry_name::kTrainStep)}};
  Builder build(program, program.entries[0]);
  const TensorId x = program.input("x", {{4, 8}, DType::f32});
  const TensorId w = program.persistent("w", {{8, 8}, DType::f32}, Role::parameter, {});
  const TensorId y = build.emit<Linear>({build.emit<Linear>({x, w, kNone}), w, kNone});
  const TensorId labels = program.input("labels", {{4}, DType::i32}),
                 weights = program.input("weights", {{4}, DType::f32});
  program.entries[0].outputs.push_back(
      {output_name::kLoss, build.emit<CrossEntropy>({y, labels, weights}, 0.0)});
  run_passes(program,
             {mixed_precision(DType::bf16), autodiff(), recompute(setting), accumulate(micro_batches)});
  return program;
}

int casts_of(const Program& program, const char* entry, const char* tensor) {
  int found = 0;
  for (const Node& node : program.find_entry(entry)->nodes) {
    found += node.op->name() == "cast" && node.inputs[0] == program.find(tensor) ? 1 : 0;
  }
  return found;
}

}  // namespace

TEST_CASE("of several micro-batches only the first casts the weights") {
  Program program = draft(3);
  CHECK(casts_of(program, entry_name::kAccumulateNext, "w") == 1);
  run_passes(program, {keep_low_weights()});
  CHECK(casts_of(program, entry_name::kAccumulateFirst, "w") == 1);
  CHECK(casts_of(program, entry_name::kAccumulateNext, "w") == 0);
  const TensorId kept = program.find("w.low");
  REQUIRE(kept != kNone);
  CHECK(program.spec(kept) == TensorSpec{{8, 8}, DType::bf16});
  int reads = 0;
  for (const Node& node : program.find_entry(entry_name::kAccumulateNext)->nodes) {
    for (const TensorId id : node.inputs) reads += id == kept ? 1 : 0;
  }
  CHECK(reads == 3);  // forward twice, backward once: nobody wants the gradient of x
  const Node& last = program.find_entry(entry_name::kAccumulateFirst)->nodes.back();
  CHECK(last.op->name() == "assign");
  CHECK(last.inputs[0] == kept);
}

TEST_CASE("what recomputing cast again is read from what was kept") {
  Program program = draft(2, {.kind = Recompute::Kind::full});
  run_passes(program, {keep_low_weights()});
  CHECK(casts_of(program, entry_name::kAccumulateFirst, "w") == 1);
  CHECK(casts_of(program, entry_name::kAccumulateNext, "w") == 0);
}

TEST_CASE("a step of one micro-batch keeps nothing") {
  Program program = draft(1);
  const std::string before = to_text(program);
  run_passes(program, {keep_low_weights()});
  CHECK(to_text(program) == before);
}
