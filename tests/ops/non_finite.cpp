// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/non_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include "tests/catch.h"

#include "core/graph/operation.h"
#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/for_each.h"
#include "core/graph/ops/loss_scale.h"
#include "core/graph/ops/step_guard.h"
#include "tests/ops/variants.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

namespace trainer {
namespace {

using GivenNumbers = std::map<std::string, std::vector<float>>;
using FoundNumbers = std::vector<std::vector<double>>;

constexpr float kPlantedInfinity = std::numeric_limits<float>::infinity(),
                kPlantedNan = std::numeric_limits<float>::quiet_NaN();

struct Plant {
  static constexpr size_t kEverywhere = SIZE_MAX;
  std::string tensor;
  size_t place;
  float value;
};

/// A program as one backend runs it. Its outputs are those of the plain one, in any order.
class Runner {
 public:
  Runner(const Program& program, const Backend& backend, const GivenNumbers& values,
         const std::vector<std::string>& outputs)
      : session_(program, backend), values_(values) {
    session_.set(values_);
    for (const std::string& name : outputs) {
      outputs_.push_back(plan().entry(kEntry).output(name));
      REQUIRE(outputs_.back() != kNone);
    }
  }

  FoundNumbers run() {
    session_.run(kEntry);
    FoundNumbers all;
    for (const TensorId output : outputs_) all.push_back(session_.executable().read<double>(output));
    return all;
  }
  FoundNumbers run(const Plant& plant) {
    std::vector<float> values = values_.at(plant.tensor);
    if (plant.place == Plant::kEverywhere) {
      std::ranges::fill(values, plant.value);
    } else {
      values[plant.place] = plant.value;
    }
    session_.set(plant.tensor, values);
    FoundNumbers all = run();
    session_.set(plant.tensor, values_.at(plant.tensor));
    return all;
  }
  const Plan& plan() { return session_.executable().plan(); }

 private:
  Session session_;
  const GivenNumbers& values_;
  std::vector<TensorId> outputs_;
};

/// Operands and switches: they distinguish the fused forms of an operation.
std::string form_of(const Node& node) {
  std::string form(node.op->name());
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    form += ' ';
    for (const TensorId id : *operands) form += id == kNone ? '-' : 'x';
  }
  for (const Attribute& attribute : attributes_of(*node.op)) {
    const auto* is_set = std::get_if<bool>(&attribute.value);
    const auto* text = std::get_if<std::string>(&attribute.value);
    if (is_set != nullptr && *is_set) form += ' ' + attribute.name;
    if (text != nullptr) form += fmt::format(" {}={}", attribute.name, *text);
  }
  return form;
}

void record_plan(const Plan& plan, NonFiniteCoverage& coverage) {
  for (const PlannedNode& planned : plan.entry(kEntry).nodes) {
    const Operation& op = *planned.node.op;
    const auto* each = dynamic_cast<const ForEach*>(&op);
    const Operation& one = each == nullptr ? op : *each->ops[0];
    coverage.operations.insert(typeid(one));
    coverage.forms.insert(form_of(planned.node));
    coverage.implementations.insert(
        fmt::format("{} {} {}", op.name(), planned.choice.implementation, planned.choice.algorithm));
    for (const auto* layouts : {&planned.choice.inputs, &planned.choice.outputs}) {
      for (const Layout& layout : *layouts) coverage.layouts.insert(to_string(layout));
    }
  }
}

/// Inputs that are read as zero or not: a NaN in them cannot get lost.
bool is_switch(const std::string& name) {
  return name == "skip" || name == "held" || name == "found" || name == "go";
}

/// Whether an output depends on numbers without being one: hits, flags, counters.
bool is_decision(const Program& program, const NamedTensor& output) {
  if (!is_floating(program.spec(output.tensor).dtype)) return true;
  for (const Node& node : program.find_entry(kEntry)->nodes) {
    const auto place = std::ranges::find(node.outputs, output.tensor);
    if (place == node.outputs.end()) continue;
    const Operation& op = *node.op;
    const std::type_index type = typeid(op);
    return type == typeid(TopK) || type == typeid(StepGuard) || type == typeid(UpdateLossScale) ||
           (type == typeid(Unscale) && place - node.outputs.begin() == 1);
  }
  return false;
}

/// The first, the last and one at random for NaN; one for each infinity; and the whole tensor.
std::vector<Plant> plants_of(const Program& program, const GivenNumbers& values, Planting planting,
                             RandomStream random) {
  std::vector<Plant> plants;
  for (const Tensor& tensor : program.tensors) {
    const auto given = values.find(tensor.name);
    if (tensor.name.empty() || given == values.end() || !is_floating(tensor.spec.dtype) ||
        is_switch(tensor.name))
      continue;
    const size_t count = given->second.size();
    auto any = [&] { return static_cast<size_t>(random.next_below(static_cast<int64_t>(count))); };
    if (planting == Planting::brief) {
      constexpr size_t kMostPlants = 12;  // of hundreds of parameters the first ones
      if (plants.size() >= kMostPlants) break;
      plants.push_back({tensor.name, any(), kPlantedNan});
      plants.push_back({tensor.name, any(), kPlantedInfinity});
      continue;
    }
    std::set<size_t> places{0, count - 1, any()};
    for (const size_t place : places) plants.push_back({tensor.name, place, kPlantedNan});
    for (const float value : {kPlantedInfinity, -kPlantedInfinity}) {
      plants.push_back({tensor.name, any(), value});
      plants.push_back({tensor.name, Plant::kEverywhere, value});
    }
    plants.push_back({tensor.name, Plant::kEverywhere, kPlantedNan});
  }
  return plants;
}

/// The reason why one of the values is wrong, or nothing.
std::string fault_of(double found, double expected, const Plant& plant, double scale) {
  if (std::isnan(plant.value) && std::isnan(expected)) return std::isnan(found) ? "" : "NaN was lost";
  if (!std::isfinite(expected)) return std::isfinite(found) ? "it has become a number" : "";
  if (!std::isfinite(found)) return "";
  return std::abs(found - expected) <= scale ? "" : "another number";
}

double largest_number(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

bool all_finite(const FoundNumbers& all) {
  return std::ranges::all_of(all, [](const std::vector<double>& values) {
    return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
  });
}

/// Gradients may lose the results of an infinity on another path to the loss, which shows it.
void compare_each(const FoundNumbers& found, const FoundNumbers& expected,
                  const std::vector<std::string>& names, const Plant& plant, double tolerance) {
  const bool shows = !std::isnan(plant.value) && !all_finite(found);
  for (size_t o = 0; o < names.size(); ++o) {
    if (shows && names[o].starts_with("gradient of ")) continue;
    const double scale = tolerance * (1 + largest_number(expected[o]));
    for (size_t i = 0; i < expected[o].size(); ++i) {
      const std::string fault = fault_of(found[o][i], expected[o][i], plant, scale);
      if (fault.empty()) continue;
      FAIL_CHECK(fmt::format("{} in {}{}: {}[{}] is {}, expected {}: {}", plant.value, plant.tensor,
                             plant.place == Plant::kEverywhere ? "" : fmt::format("[{}]", plant.place),
                             names[o], i, found[o][i], expected[o][i], fault));
      break;
    }
  }
}

/// The plain program in the reference, and its results for each plant.
struct Expected {
  Expected(const Program& program, const GivenNumbers& values, bool rounds, uint64_t seed, Planting planting)
      : plain(program), plants(plants_of(plain, values, planting, RandomStream(random_key(seed, "plants")))) {
    for (const NamedTensor& output : plain.find_entry(kEntry)->outputs) {
      names.push_back(output.name);
      follows.push_back(!output.name.starts_with("gradient of ") && !is_decision(plain, output));
    }
    const Backend reference = make_reference_backend(rounds);
    Runner runner(plain, reference, values, names);
    const FoundNumbers before = runner.run();
    for (const Plant& plant : plants) {
      outputs.push_back(runner.run(plant));
      if (std::isnan(plant.value) && plant.place != Plant::kEverywhere)
        check_reference(runner, plant, before);
    }
  }

  Program plain;
  std::vector<std::string> names;
  std::vector<bool> follows;  ///< an output that NaN must reach; of gradients others may change instead
  std::vector<Plant> plants;
  std::vector<FoundNumbers> outputs;  ///< of each plant

 private:
  /// All values that change with the number that the NaN replaces are NaN.
  void check_reference(Runner& runner, const Plant& plant, const FoundNumbers& before) const {
    constexpr float kMoved = 0.37f;
    const FoundNumbers after = runner.run({plant.tensor, plant.place, kMoved});
    for (size_t o = 0; o < names.size(); ++o) {
      for (size_t i = 0; i < before[o].size(); ++i) {
        if (!follows[o] || before[o][i] == after[o][i] || std::isnan(outputs.back()[o][i])) continue;
        FAIL_CHECK(fmt::format("the reference loses NaN in {}[{}] on the way to {}[{}], which is {}",
                               plant.tensor, plant.place, names[o], i, outputs.back()[o][i]));
        break;
      }
    }
  }
};

/// Whether the backend has all operations; missing ones are recorded.
bool runs_on(const Planner& planner, const Program& program, NonFiniteCoverage& coverage) {
  bool runs = true;
  for (const Node& node : program.find_entry(kEntry)->nodes) {
    const Operation& op = *node.op;
    const OpContext context{.op = op,
                            .inputs = specs_of(program.tensors, node.inputs),
                            .outputs = specs_of(program.tensors, node.outputs)};
    if (op.is_view() || !planner.why_not(context)) continue;
    coverage.refused.insert(typeid(op));
    runs = false;
  }
  return runs;
}

void check_form(const Program& program, const Backend& backend, const GivenNumbers& values,
                const Expected& expected, double tolerance, NonFiniteCoverage& coverage) {
  if (!runs_on(*backend.planner, program, coverage)) return;
  Runner runner(program, backend, values, expected.names);
  record_plan(runner.plan(), coverage);
  for (size_t p = 0; p < expected.plants.size(); ++p) {
    compare_each(runner.run(expected.plants[p]), expected.outputs[p], expected.names, expected.plants[p],
                 tolerance);
    ++coverage.runs;
  }
}

size_t largest_tensor(const Sketch& sketch) {
  size_t largest = 0;
  for (const auto& [name, values] : sketch.values) largest = std::max(largest, values.size());
  return largest;
}

constexpr double kAnyNumber = kPlantedInfinity;  ///< numbers of low types are compared elsewhere

}  // namespace

void check_non_finite(const Backend& backend, const Draft& draft, uint64_t seed, NonFiniteCoverage& coverage,
                      Planting planting) {
  // Large tensors are for sums of several blocks; everything else is as in small ones.
  constexpr size_t kLarge = 1000;
  constexpr double kTolerance = 0.03;  // some cases cast to bf16
  Sketch sketch(seed);
  draft(sketch);
  if (largest_tensor(sketch) > kLarge) planting = Planting::brief;
  const Expected expected(differentiated(sketch.program, {}), sketch.values, false, seed, planting);
  for (const std::vector<Pass>& passes : variants_of_fusion()) {
    if (planting == Planting::brief && passes.size() != variants_of_fusion().back().size()) continue;
    INFO(backend.planner->name() << ", " << passes.size() << " passes of fusion");
    const Program program =
        differentiated(sketch.program, passes, passes.empty() ? nullptr : backend.planner.get());
    const bool is_plain = to_text(program) == to_text(expected.plain);
    if (is_plain && planting == Planting::thorough && !passes.empty()) continue;
    check_form(program, backend, sketch.values, expected, kTolerance, coverage);
  }
}

void check_non_finite_bf16(const Backend& backend, const Draft& draft, uint64_t seed,
                           NonFiniteCoverage& coverage) {
  Sketch sketch(seed);
  draft(sketch);
  const Expected expected(differentiated(sketch.program, with_bf16({})), sketch.values, true, seed,
                          Planting::brief);
  for (const std::vector<Pass>& passes : {variants_of_fusion().front(), variants_of_fusion().back()}) {
    INFO(backend.planner->name() << " in bf16, " << passes.size() << " passes of fusion");
    check_form(differentiated(sketch.program, with_bf16(passes)), backend, sketch.values, expected,
               kAnyNumber, coverage);
  }
}

void check_non_finite_narrow(const Backend& backend, const Draft& draft, DType dtype, uint64_t seed,
                             NonFiniteCoverage& coverage, Planting planting) {
  INFO(backend.planner->name() << " in " << to_string(dtype));
  Sketch sketch(seed);
  draft(sketch);
  const Program wide = differentiated(sketch.program, {}), narrow = stored_as(wide, dtype);
  for (const Tensor& tensor : narrow.tensors) {
    if (tensor.spec.dtype != dtype || !sketch.values.contains(tensor.name)) continue;
    std::vector<float>& values = sketch.values[tensor.name];
    values = through(*backend.planner, values, dtype);
  }
  const Expected expected(wide, sketch.values, false, seed, planting);
  check_form(narrow, backend, sketch.values, expected, kAnyNumber, coverage);
}

bool has_more_elements(const Draft& draft, int64_t elements) {
  Sketch sketch(1);
  draft(sketch);
  return std::ranges::any_of(sketch.program.tensors, [=](const Tensor& tensor) {
    return !tensor.spec.shape.empty() && numel(tensor.spec.shape) > elements;
  });
}

std::string summary(const NonFiniteCoverage& c) {
  return fmt::format(
      "NaN and infinities: {} operations in {} forms by {} implementations, {} layouts; {} runs\n",
      c.operations.size(), c.forms.size(), c.implementations.size(), c.layouts.size(), c.runs);
}

}  // namespace trainer
