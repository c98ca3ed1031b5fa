// SPDX-License-Identifier: Apache-2.0
#include "core/session/product_times.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "core/engine/executable.h"
#include "core/graph/builder.h"
#include "core/graph/names.h"
#include "core/graph/ops/quantize.h"
#include "core/step/quantized_products.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

constexpr const char* kInF32 = "f32";
constexpr const char* kInInt8 = "int8";
constexpr const char* kWeights = "int8.weights";

/// Adds an entry with one node like this, whose operands are states. `weights` names that operand.
void add_entry(Program& program, const char* name, const Program& of, const Node& node,
               const QuantizedForm& form, const std::string& weights) {
  Entry& entry = program.entries.emplace_back(name);
  Builder build(program, entry);
  const Initial random{.kind = Initial::Kind::normal, .a = 0, .b = 1};
  std::vector<TensorId> operands;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool is_weight = i == form.weight || i == form.bias;
    const std::string operand =
        i == form.weight ? weights : (is_weight ? weights : "operand") + std::to_string(i);
    operands.push_back(node.inputs[i] == kNone
                           ? kNone
                           : program.persistent(operand, of.spec(node.inputs[i]),
                                                is_weight ? Role::parameter : Role::cache, random));
  }
  entry.outputs.push_back({"y", build.emit_all(node.op, operands).front()});
}

/// One product in two entries. Weights are prepared as in a whole network; other operands have the layout
/// that the product in f32 prefers.
Program both_types(const Program& of, const Node& node, const QuantizableProduct& product,
                   const Int8Network& network, const Planner& planner) {
  Program program;
  add_entry(program, kInInt8, of, node, product.form, kWeights);
  Int8Network alone{.weights = network.weights,
                    .activations = network.activations,
                    .inputs = {{kWeights, network.inputs.at(product.name)}}};
  quantize(std::make_shared<const Int8Network>(std::move(alone))).run(program);
  add_entry(program, kInF32, of, node, product.form, "f32.weights");
  std::swap(program.entries[0], program.entries[1]);
  run_passes(program, {prepare_weights(&planner), dead_code()});
  return program;
}

/// The shortest of several runs of each node: others were disturbed.
ProductTimes shortest_times(Executable& executable) {
  constexpr int kTurns = 7;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  ProductTimes shortest{.f32 = kNever, .int8 = kNever, .conversion = kNever};
  double* product = nullptr;
  executable.observe([&](const PlannedNode& planned, double begin, double end) {
    const bool converts = dynamic_cast<const Quantize*>(planned.node.op.get()) != nullptr;
    const bool multiplies = planned.node.inputs.size() > 1;
    if (converts) shortest.conversion = std::min(shortest.conversion, end - begin);
    if (multiplies) *product = std::min(*product, end - begin);
  });
  for (int turn = 0; turn < kTurns; ++turn) {
    product = &shortest.f32;
    executable.run(executable.entry(kInF32));
    product = &shortest.int8;
    executable.run(executable.entry(kInInt8));
  }
  return shortest;
}

}  // namespace

TimesOfProducts time_products(const Program& program, const Int8Network& network, const Backend& backend,
                              const std::function<void()>& between) {
  TimesOfProducts times;
  const Entry* entry = program.find_entry(entry_name::kPredict);
  for (const QuantizableProduct& product : quantizable_products(program, *entry)) {
    if (!network.inputs.contains(product.name)) continue;
    between();
    const Program both = both_types(program, entry->nodes[product.node], product, network, *backend.planner);
    Executable executable(make_plan(both, *backend.planner), *backend.device);
    initialize(executable, 1);
    times[product.name] = shortest_times(executable);
  }
  return times;
}

TimesOfProducts slower_products(const Program& program, const TimesOfProducts& times) {
  const Entry* entry = program.find_entry(entry_name::kPredict);
  const std::vector<QuantizableProduct> products = quantizable_products(program, *entry);
  TimesOfProducts left = times, slower;
  const auto input_of = [&](const QuantizableProduct& product) {
    return entry->nodes[product.node].inputs[product.form.x];
  };
  for (size_t before = left.size() + 1; left.size() < before;) {
    before = left.size();
    std::map<TensorId, int> readers;
    std::set<TensorId> bytes;
    for (const QuantizableProduct& product : products) {
      if (!left.contains(product.name)) continue;
      ++readers[input_of(product)];
      bytes.insert(entry->nodes[product.node].outputs[0]);
    }
    for (const QuantizableProduct& product : products) {
      const auto found = left.find(product.name);
      if (found == left.end()) continue;
      const TensorId x = input_of(product);
      ProductTimes each = found->second;
      if (!bytes.contains(x)) each.int8 += each.conversion / readers[x];
      if (each.int8 < each.f32) continue;
      slower[product.name] = each;
      left.erase(found);
    }
  }
  return slower;
}

}  // namespace trainer
