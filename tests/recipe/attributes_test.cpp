// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <set>
#include "tests/catch.h"

#include "core/graph/operation.h"
#include "core/graph/ops/assign.h"
#include "core/graph/ops/lerp.h"
#include "core/recipe/job.h"
#include "cpu/backend.h"
#include "tests/sanitized.h"

namespace trainer {
namespace {

/// Writes attributes as an exporter would: a name with each, a type from the value.
class Exporter final : public AttributeVisitor {
 public:
  std::set<std::string> names;
  size_t reported = 0;

 private:
  void visit(std::string_view name, const AttributeValue& value, const AttributeStyle&) override {
    CHECK_FALSE(name.empty());
    CHECK_FALSE(value.valueless_by_exception());
    names.emplace(name);
    ++reported;
  }
};

/// The node that makes a tensor, or nullptr.
const Node* maker_in(const Entry& entry, TensorId id) {
  const auto made = std::ranges::find_if(
      entry.nodes, [id](const Node& node) { return std::ranges::count(node.outputs, id) > 0; });
  return id == kNone || made == entry.nodes.end() ? nullptr : &*made;
}

}  // namespace

TEST_CASE("every operation of the shipped recipes reports each attribute once, under a name of its own") {
  const auto cpu = make_cpu_backend(2, nullptr, true);
  size_t recipes = 0, attributes = 0;
  for (const auto& file : std::filesystem::directory_iterator(std::string(TRAINER_SOURCE_DIR) + "/configs")) {
    if (file.path().extension() != ".yaml" || recipes++ % few_or_all<size_t>(4, 1) != 0) continue;
    const auto recipe = Recipe::load(
        file.path().string(), {"data.format=synthetic", "data.val_fraction=0", "training.precision=fp32",
                               "training.global_batch_size=8", "training.micro_batch_size=4",
                               "training.ema.decay=0.9", "guards.spike=skip", "optimizer.clip_norm=1"});
    const Job job = make_job(recipe, *cpu.planner, {.plan = false});
    for (const Entry& entry : job.program.entries) {
      for (const Node& node : entry.nodes) {
        INFO(file.path() << " " << node.op->name());
        Exporter exporter;
        node.op->describe(exporter);
        CHECK(exporter.names.size() == exporter.reported);
        CHECK(attributes_of(*node.op).size() == exporter.reported);
        attributes += exporter.reported;
      }
    }
  }
  CHECK(recipes >= 8);
  CHECK(attributes > 1000);
}

TEST_CASE(
    "operations of the shipped recipes say what they are: losses, and whoever moves running statistics") {
  for (const auto& file : std::filesystem::directory_iterator(std::string(TRAINER_SOURCE_DIR) + "/configs")) {
    if (file.path().extension() != ".yaml") continue;
    INFO(file.path().string());
    const RunSpec spec =
        Recipe::load(file.path().string(), {"data.format=synthetic", "data.val_fraction=0",
                                            "training.global_batch_size=4", "training.micro_batch_size=4"});
    Program program = forward_program(spec);
    const Entry& entry = program.entry(entry_name::kTrainStep);
    const Node* loss = maker_in(entry, entry.output(output_name::kLoss));
    REQUIRE(loss != nullptr);
    const auto judged = loss->op->judged_input();
    REQUIRE(judged.has_value());
    CHECK(program.spec(loss->inputs[*judged]).shape == spec.output());
    for (const Node& node : entry.nodes) {
      if (node.op->name() != "assign" || program.tensor(node.inputs[Assign::kState]).role != Role::state)
        continue;
      const Node* moves = maker_in(entry, node.inputs[Assign::kValue]);
      const Node* measures = moves == nullptr ? nullptr : maker_in(entry, moves->inputs[Lerp::kFresh]);
      REQUIRE(measures != nullptr);
      CHECK(measures->op->has_batch_statistics());
    }
  }
}

}  // namespace trainer
