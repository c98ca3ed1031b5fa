// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "tests/passes/draft.h"

using namespace trainer;

namespace {

/// Two linear layers that share weights, in mixed precision, differentiated and split.
Draft shared_weights(int64_t micro_batches, const Recompute& setting = {}) {
  Draft draft;
  const TensorId x = draft.input("x", {4, 8}), w = draft.parameter("w", {8, 8});
  draft.loss(draft.build.emit<Linear>({draft.build.emit<Linear>({x, w, kNone}), w, kNone}));
  draft.run({mixed_precision(DType::bf16), autodiff(), recompute(setting), accumulate(micro_batches)});
  return draft;
}

int64_t casts_of_weights(Draft& draft, const char* entry) {
  return std::ranges::count(draft.calls("cast", entry), "bf16 cast(w) {to=bf16}");
}

}  // namespace

TEST_CASE("of several micro-batches only the first casts the weights") {
  Draft draft = shared_weights(3);
  const Program& program = draft.program;
  CHECK(casts_of_weights(draft, entry_name::kAccumulateNext) == 1);
  draft.run({keep_low_weights()});
  CHECK(casts_of_weights(draft, entry_name::kAccumulateFirst) == 1);
  CHECK(casts_of_weights(draft, entry_name::kAccumulateNext) == 0);
  const TensorId kept = program.find("w.low");
  REQUIRE(kept != kNone);
  CHECK(program.spec(kept) == TensorSpec{{8, 8}, DType::bf16});
  int reads = 0;
  for (const Node& node : program.find_entry(entry_name::kAccumulateNext)->nodes) {
    for (const TensorId id : node.inputs) reads += id == kept ? 1 : 0;
  }
  CHECK(reads == 3);  // forward twice, backward once: the gradient of x is not needed
  const Node& last = program.find_entry(entry_name::kAccumulateFirst)->nodes.back();
  CHECK(last.op->name() == "assign");
  CHECK(last.inputs[0] == kept);
}

TEST_CASE("what recomputing cast again is read from what was kept") {
  Draft draft = shared_weights(2, {.kind = Recompute::Kind::full});
  draft.run({keep_low_weights()});
  CHECK(casts_of_weights(draft, entry_name::kAccumulateFirst) == 1);
  CHECK(casts_of_weights(draft, entry_name::kAccumulateNext) == 0);
}

TEST_CASE("a step of one micro-batch keeps nothing") {
  CHECK_FALSE(shared_weights(1).is_changed_by({keep_low_weights()}));
}
