// SPDX-License-Identifier: Apache-2.0
#include "core/engine/plan.h"

#include <fmt/format.h>

#include "tests/catch.h"

#include "core/engine/arena.h"
#include "core/graph/ops/unary.h"
#include "cpu/backend.h"
#include "tests/reference/backend.h"
#include "tests/reference/networks.h"

using namespace trainer;

namespace {

constexpr int64_t kPlannedBatch = 128;

Program shipped(const std::string& model, const std::string& optimizer) {
  return training_program(network_from(source_text("configs/models/" + model + ".yaml")), kPlannedBatch,
                          *optimizer_from(optimizer), {0.1f}, {fuse_relu()});
}

/// An operation that no backend supports.
class Mystery final : public Operation {
 public:
  std::string_view name() const override { return "mystery"; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override { return {inputs[0]}; }
};

/// One operation on an input, at a place in a recipe.
template <class Op, class... Arguments>
Program one_operation(DType dtype, Arguments... arguments) {
  Program program;
  program.entries.emplace_back("run");
  Builder build(program, program.entries[0]);
  build.set_origin({.where = {.file = "resnet.yaml", .line = 41, .column = 9}, .path = "model.layers[7]"});
  build.emit<Op>({program.input("x", {{2, 3}, dtype})}, arguments...);
  return program;
}

std::string refusal(const Program& program, const Backend& backend) {
  try {
    make_plan(program, *backend.planner);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::recipe);
    const std::string text = error.what();  // its last line only counts the problems
    return text.substr(0, text.find('\n'));
  }
  return "planned";
}

}  // namespace

TEST_CASE("shipped networks need hardly more scratch memory than lives at once") {
  const auto cpu = make_cpu_backend(2);
  for (const char* model : {"mlp", "lenet"}) {
    for (const char* optimizer : {"sgd", "{name: adamw, clip_norm: 1}"}) {
      const Plan plan = make_plan(shipped(model, optimizer), *cpu.planner);
      for (const PlannedEntry& entry : plan.entries) {
        INFO(model << " " << entry.name);
        CHECK(entry.live_bytes > 0);
        CHECK(entry.scratch_bytes >= entry.live_bytes);
        CHECK(static_cast<double>(entry.scratch_bytes) <= 1.05 * static_cast<double>(entry.live_bytes));
        CHECK(entry.scratch_bytes <= plan.scratch_bytes);
        int64_t sum = 0;
        for (const auto& [kind, bytes] : entry.peak_by_kind) sum += bytes;
        CHECK(sum == entry.live_bytes);
      }
      int64_t sum = 0;
      for (const auto& [kind, bytes] : plan.persistent_by_kind) sum += bytes;
      CHECK(sum == plan.persistent_bytes);
    }
  }
}

TEST_CASE("shipped networks run on no reference implementation") {
  const auto cpu = make_cpu_backend(2);
  for (const char* model : {"mlp", "lenet"}) {
    const Plan plan = make_plan(shipped(model, "{name: sgd, momentum: 0.9}"), *cpu.planner);
    CHECK(to_text(plan).find(" ref") == std::string::npos);
    for (const PlannedEntry& entry : plan.entries) {
      for (const PlannedNode& planned : entry.nodes) {
        INFO(planned.node.op->name() << " " << planned.choice.implementation);
        CHECK_FALSE(planned.choice.implementation.empty());
        CHECK_FALSE(planned.choice.implementation.starts_with("ref"));
      }
    }
  }
}

TEST_CASE("a plan is the same every time") {
  const auto cpu = make_cpu_backend(2);
  for (const char* model : {"mlp", "lenet"}) {
    const Program program = shipped(model, "adamw");
    CHECK(to_text(make_plan(program, *cpu.planner)) == to_text(make_plan(program, *cpu.planner)));
  }
}

TEST_CASE("an executable allocates what the plan says") {
  const Backend backend = make_reference_backend();
  const Plan plan = make_plan(shipped("mlp", "sgd"), *backend.planner);
  CHECK(plan.persistent_by_kind.at("parameters") >=
        8 * (784 * 1000 + 1000 + 1000 * 100 + 100 + 100 * 10 + 10));
  CHECK(plan.scratch_bytes % kArenaAlignment == 0);
}

TEST_CASE("what a backend refuses is an error at the operation's origin") {
  const auto cpu = make_cpu_backend(1);
  const Backend reference = make_reference_backend();
  const std::string place = "resnet.yaml:41:9: error: model.layers[7]: ";
  CHECK(refusal(one_operation<Mystery>(DType::f32), cpu) ==
        place + "mystery cannot run on cpu: the CPU has no implementation of it");
  CHECK(refusal(one_operation<Mystery>(DType::f32), reference) ==
        place + "mystery cannot run on reference: no loop has been written for it");
  const auto relu = elementwise::Function(elementwise::Relu{});
  CHECK(refusal(one_operation<Unary>(DType::f16, relu), cpu) ==
        place +
            "relu cannot run on cpu: the CPU has no fp16 arithmetic; write amp_bf16 or fp32, or "
            "device.type=cuda");
}
