// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>

#include "core/engine/backend_library.h"
#include "core/graph/ops/conv2d.h"
#include "core/recipe/job.h"
#include "tests/cudnn/devices.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

bool is_convolution(const Operation& op) {
  return op.name().starts_with("conv2d");
}

/// The node as a backend would see it with activations and weights of `dtype`.
OpContext context_of(const Program& program, const Node& node, DType dtype) {
  OpContext context{.op = *node.op, .inputs = {}, .outputs = {}};
  const auto spec = [&](TensorId id) {
    return id == kNone ? TensorSpec{} : TensorSpec{program.spec(id).shape, dtype};
  };
  for (TensorId id : node.inputs) context.inputs.push_back(spec(id));
  for (TensorId id : node.outputs) context.outputs.push_back(spec(id));
  return context;
}

std::vector<fs::path> shipped_recipes() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(fs::path(TRAINER_SOURCE_DIR) / "configs")) {
    if (entry.path().extension() == ".yaml") found.push_back(entry.path());
  }
  return found;
}

/// Plans every convolution once; returns how many nodes there were.
int plan_convolutions(const Program& program, const Backend& gpu, DType dtype) {
  int planned = 0;
  for (const Entry& entry : program.entries) {
    for (const Node& node : entry.nodes) {
      if (!is_convolution(*node.op)) continue;
      const OpContext context = context_of(program, node, dtype);
      INFO(node.op->name() << " " << node.op->attributes() << " of " << node.origin.path << " in "
                           << to_string(dtype));
      const auto refusal = gpu.why_not(context);
      CAPTURE(refusal.value_or(""));
      REQUIRE(!refusal);
      const Choice choice = gpu.select(context, OpenLayouts(context.inputs.size()));
      REQUIRE(choice.algorithm.starts_with("e"));
      REQUIRE(choice.implementation.starts_with("cudnn"));
      REQUIRE(choice.workspace_bytes >= 0);
      ++planned;
    }
  }
  return planned;
}

}  // namespace

TEST_CASE("every shipped recipe has a plan for A100, H200 and B200, its convolutions in all types") {
  const DeviceDescription device = shipped_device(GENERATE("a100", "h200", "b200"));
  INFO(device.name);
  const auto gpu = load_backend("cuda", BackendRequest{.described = &device});
  int planned = 0;
  const auto recipes = shipped_recipes();
  CHECK(recipes.size() >= 7);
  for (const fs::path& path : recipes) {
    INFO(path);
    const auto recipe = Recipe::load(path.string(), {});
    const Job job = make_job(*recipe, *gpu);
    CHECK(job.memory.total() < gpu->memory_bytes());
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
      planned += plan_convolutions(job.program, *gpu, dtype);
  }
  CHECK(planned > 1000);
}

}  // namespace trainer
