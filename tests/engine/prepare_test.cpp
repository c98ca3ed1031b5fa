// SPDX-License-Identifier: Apache-2.0
#include "core/base/rng.h"
#include "core/engine/executable.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/passes/draft.h"

namespace trainer {
namespace {

std::vector<float> values_of(const Tensor& tensor) {
  RandomStream random(random_key(5, tensor.name));
  std::vector<float> values(static_cast<size_t>(numel(tensor.spec.shape)));
  for (float& value : values) value = random.next_uniform() * 2 - 1;
  return values;
}

/// The output y of a drafted entry, on the CPU, with the same numbers in every call.
struct Run {
  std::vector<float> y;
  std::vector<std::string> given;  ///< while `prepare` ran, in that order
};
Run run_of(const Draft& draft, const Backend& backend) {
  Executable executable(make_plan(draft.program, *backend.planner), *backend.device);
  const std::vector<Tensor>& tensors = executable.plan().tensors;
  Run run;
  const auto write = [&](TensorId id) { executable.write(id, values_of(tensors[static_cast<size_t>(id)])); };
  std::vector<Buffer> inputs;
  for (size_t i = 0; i < draft.program.tensors.size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    if (tensors[i].role == Role::input) {
      const std::vector<float> values = values_of(tensors[i]);
      inputs.push_back(backend.device->allocate_batch(static_cast<int64_t>(values.size() * sizeof(float))));
      std::ranges::copy(values, reinterpret_cast<float*>(inputs.back().data()));
      executable.bind(id, inputs.back().data());
    } else if (tensors[i].role == Role::parameter && !executable.plan().placements[i].is_transient) {
      write(id);
    }
  }
  const std::span<std::byte> scratch = executable.scratch();
  std::ranges::fill(scratch, std::byte{0xFF});
  executable.prepare([&](TensorId id) {
    run.given.push_back(tensors[static_cast<size_t>(id)].name);
    write(id);
  });
  std::ranges::fill(scratch, std::byte{0xFF});
  executable.run(executable.entry(entry_name::kTrainStep));
  run.y = executable.read(executable.plan().entry(entry_name::kTrainStep).output("y"));
  return run;
}

int64_t bytes_of(const Shape& shape) {
  return numel(shape) * static_cast<int64_t>(sizeof(float));
}

/// y = x * a^2 * b^2 * c, of which the last is read as it is.
Draft squares(const Shape& shape) {
  Draft draft;
  TensorId y = draft.input("x", shape);
  for (const char* name : {"a", "b"}) {
    const TensorId w = draft.parameter(name, shape);
    y = draft.build.emit<Binary>({y, draft.build.emit<Binary>({w, w}, Binary::Kind::mul)}, Binary::Kind::mul);
  }
  draft.output("y", draft.build.emit<Binary>({y, draft.parameter("c", shape)}, Binary::Kind::mul));
  return draft;
}

/// Two convolutions that read their weights as they are.
Draft convolutions(int64_t channels, int64_t size, int64_t groups) {
  Draft draft;
  const Conv2dGeometry geometry{.kernel = {3, 3}, .padding = {1, 1}, .groups = groups};
  TensorId y = draft.input("x", {2, channels, size, size});
  for (const char* name : {"a", "b"})
    y = draft.build.emit<Conv2d>({y, draft.parameter(name, {channels, channels / groups, 3, 3})}, geometry);
  draft.output("y", y);
  return draft;
}

}  // namespace

TEST_CASE("weights that only `prepare` reads share scratch memory, and are given when they are needed") {
  const Shape shape{64, 64};
  const Backend cpu = make_cpu_backend(2);
  const std::vector<float> expected = run_of(squares(shape), cpu).y;
  Draft draft = squares(shape);
  draft.run({prepare_weights(), dead_code()});
  const Plan plan = make_plan(draft.program, *cpu.planner);
  CHECK(plan.persistent_bytes == 3 * bytes_of(shape));
  CHECK(plan.entry(entry_name::kPrepare).scratch_bytes == bytes_of(shape));
  for (const char* name : {"a", "b", "c"}) {
    const Placement& at = plan.placements[static_cast<size_t>(plan.find(name))];
    CHECK(at.is_transient == (name != std::string("c")));
  }
  const Run found = run_of(draft, cpu);
  CHECK(found.given == std::vector<std::string>{"a", "b"});
  CHECK(found.y == expected);
}

TEST_CASE("weights of few tiles are kept as Winograd's algorithm needs them, with equal bits") {
  const Backend cpu = make_cpu_backend(2);
  for (const auto& [channels, groups] : {std::pair{16, 1}, {48, 1}, {160, 1}, {48, 3}, {288, 2}}) {
    for (const int64_t size : {9, 60}) {
      INFO(channels << " channels in " << groups << " groups, " << size << " pixels");
      const std::vector<float> expected = run_of(convolutions(channels, size, groups), cpu).y;
      Draft draft = convolutions(channels, size, groups);
      draft.run({prepare_weights(cpu.planner.get()), dead_code()});
      const Plan plan = make_plan(draft.program, *cpu.planner);
      const std::vector<PlannedNode>& nodes = plan.entry(entry_name::kTrainStep).nodes;
      const bool is_own = std::ranges::any_of(
          nodes, [](const PlannedNode& planned) { return planned.choice.algorithm == "winograd, own"; });
      CHECK((plan.find("a.prepared") != kNone) == (is_own && size == 9));
      if (plan.find("a.prepared") != kNone)
        CHECK(to_string(plan.placements[static_cast<size_t>(plan.find("a.prepared"))].layout) ==
              "transformed");
      CHECK(run_of(draft, cpu).y == expected);
    }
  }
}

TEST_CASE("weights in bf16 are kept transformed, too") {
  Backend cpu = make_cpu_backend(2, nullptr, true);
  if (cpu.planner->set_precision(Precision::amp_bf16)) return;
  const auto drafted = [] {
    Draft draft = convolutions(48, 9, 3);
    draft.run({mixed_precision(DType::bf16)});
    return draft;
  };
  Draft draft = drafted();
  draft.run({prepare_weights(cpu.planner.get()), dead_code()});
  CHECK(draft.program.spec(draft.program.find("a.prepared")).dtype == DType::bf16);
  CHECK(run_of(draft, cpu).y == run_of(drafted(), cpu).y);
}

TEST_CASE("weights of two convolutions have the form that both read") {
  const Backend cpu = make_cpu_backend(2);
  const auto twice = [] {
    Draft draft;
    const TensorId w = draft.parameter("w", {32, 32, 3, 3}), x = draft.input("x", {2, 32, 9, 9});
    const Conv2dGeometry geometry{.kernel = {3, 3}, .padding = {1, 1}};
    draft.output("y", draft.build.emit<Conv2d>({draft.build.emit<Conv2d>({x, w}, geometry), w}, geometry));
    return draft;
  };
  Draft draft = twice();
  draft.run({prepare_weights(cpu.planner.get()), dead_code()});
  CHECK(draft.program.find("w.prepared") == kNone);
  CHECK(run_of(draft, cpu).y == run_of(twice(), cpu).y);
}

}  // namespace trainer
