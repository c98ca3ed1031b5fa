// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/cast.h"

#include "tests/catch.h"

#include <algorithm>
#include <set>

#include "core/engine/plan.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "cpu/backend.h"
#include "tests/reference/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

/// A plan in bf16 of a shipped network; nothing if this processor has no bf16.
std::optional<Plan> plan_in_bf16(const std::string& model) {
  const auto cpu = make_cpu_backend(2, nullptr, true);
  if (cpu.planner->set_precision(Precision::amp_bf16)) return std::nullopt;
  return make_plan(
      training_program(network_file("configs/models/" + model + ".yaml"), 8,
                       *optimizer_from("{name: sgd, momentum: 0.9}"), {0.1f},
                       {fuse_residual(), fold_batch_norm(), fuse_relu(), mixed_precision(DType::bf16)}),
      *cpu.planner);
}

int count(const PlannedEntry& entry, std::string_view operation) {
  return static_cast<int>(
      std::count_if(entry.nodes.begin(), entry.nodes.end(),
                    [&](const PlannedNode& planned) { return planned.node.op->name() == operation; }));
}

}  // namespace

TEST_CASE("casts write the layout that their reader wants: nothing is reordered behind them") {
  for (const char* model : {"mlp", "resnet18_32"}) {
    INFO(model);
    const auto plan = plan_in_bf16(model);
    if (!plan) return;
    for (const PlannedEntry& entry : plan->entries) {
      INFO(entry.name);
      // The gradients of oneDNN 3's strided convolutions need images with channels last.
      if (onednn_version().starts_with("2.")) CHECK(count(entry, "reorder") == 0);
      CHECK(count(entry, "cast") > 0);
      std::set<TensorId> cast;
      for (const PlannedNode& planned : entry.nodes) {
        if (planned.node.op->name() == "cast") cast.insert(planned.node.outputs[0]);
        if (planned.node.op->name() == "reorder") CHECK_FALSE(cast.contains(planned.node.inputs[0]));
        INFO(planned.node.op->name() << " " << planned.choice.implementation);
        CHECK_FALSE(planned.choice.implementation.starts_with("ref"));
      }
    }
  }
}

TEST_CASE("weights in f32 lie as their gradient does, and the optimiser reads both in it") {
  const auto plan = plan_in_bf16("resnet18_32");
  if (!plan) return;
  const TensorId w = plan->find("layer1.0.conv1.weight");
  const Layout& layout = plan->placements[static_cast<size_t>(w)].layout;
  CHECK_FALSE(layout.row_major());
  const TensorId momentum = plan->find("layer1.0.conv1.weight.momentum");
  CHECK(plan->placements[static_cast<size_t>(momentum)].layout == layout);
}

TEST_CASE("what is cast from a state before it changes is the old value, whoever reads it first") {
  const auto cpu = make_cpu_backend(2, nullptr, true);
  const Backend reference = make_reference_backend();
  for (const Backend* backend : {&cpu, &reference}) {
    INFO(backend->planner->name());
    if (backend->planner->set_precision(Precision::amp_bf16)) continue;
    Program program;
    program.entries.emplace_back("run");
    Builder build(program, program.entries[0]);
    const TensorSpec spec{{3}, DType::f32};
    const TensorId state = program.persistent("state", spec, Role::state,
                                              {.kind = Initial::Kind::fill, .a = 2, .b = 0, .table = {}});
    const TensorId low = build.emit<Cast>({state}, DType::bf16);
    build.assign(state, program.input("next", spec));
    const TensorId twice = build.emit<Binary>({low, low}, Binary::Kind::add);
    program.entries[0].outputs.push_back({"twice", build.emit<Cast>({twice}, DType::f32)});
    Session session(program, *backend);
    session.set("next", {5, 5, 5});
    for (const double expected : {4, 10}) {
      session.run("run");
      CHECK(session.output("run", "twice") == std::vector<double>(3, expected));
    }
  }
}

TEST_CASE("a cast changes layout and type in one pass, whatever the layouts") {
  const auto cpu = make_cpu_backend(2, nullptr, true);
  if (cpu.planner->set_precision(Precision::amp_bf16)) return;
  for (const int64_t groups : {1, 2, 34}) {
    INFO(groups << " groups");
    Program program;
    program.entries.emplace_back("run");
    Builder build(program, program.entries[0]);
    const Conv2dGeometry geometry{.kernel = {3, 3}, .padding = {1, 1}, .groups = groups};
    const TensorId x = program.input("x", {{2, 34, 5, 6}, DType::f32});
    const TensorId w = program.persistent("w", {{34, 34 / groups, 3, 3}, DType::f32}, Role::parameter,
                                          {.kind = Initial::Kind::uniform, .a = -1, .b = 1});
    auto low = [&](TensorId id) { return build.emit<Cast>({id}, DType::bf16); };
    const TensorId y = build.emit<Conv2d>({low(x), low(w), kNone}, geometry);
    const TensorId dx = build.emit<Conv2dBackwardData>({y, low(w)}, geometry, Shape{2, 34, 5, 6});
    program.entries[0].outputs.push_back({"y", build.emit<Cast>({y}, DType::f32)});
    program.entries[0].outputs.push_back({"dx", build.emit<Cast>({dx}, DType::f32)});
    const Backend reference = make_reference_backend(true);
    Session found(program, cpu), expected(program, reference);
    std::vector<float> values(2 * 34 * 5 * 6);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 13) - 6;
    for (Session* session : {&found, &expected}) {
      session->set("x", values);
      session->run("run");
    }
    for (const char* name : {"y", "dx"}) {
      CHECK(relative_error(found.output("run", name), expected.output("run", name)) < 1.0 / 512);
    }
  }
}
