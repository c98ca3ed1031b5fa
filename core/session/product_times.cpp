// SPDX-License-Identifier: Apache-2.0
#include "core/session/product_times.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>

#include "core/engine/executable.h"
#include "core/graph/builder.h"
#include "core/graph/names.h"
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
  Int8Network alone{.weight_bits = network.weight_bits,
                    .inputs = {{kWeights, network.inputs.at(product.name)}}};
  quantize(std::make_shared<const Int8Network>(std::move(alone))).run(program);
  add_entry(program, kInF32, of, node, product.form, "f32.weights");
  std::swap(program.entries[0], program.entries[1]);
  run_passes(program, {prepare_weights(&planner), dead_code()});
  return program;
}

double seconds_of(Executable& executable, size_t entry) {
  const auto begin = std::chrono::steady_clock::now();
  executable.run(entry);  // the CPU is done when this returns
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The shortest of several runs: others were disturbed.
ProductTimes shortest_times(Executable& executable) {
  constexpr int kTurns = 7;
  const size_t f32 = executable.entry(kInF32), int8 = executable.entry(kInInt8);
  ProductTimes shortest{.f32 = std::numeric_limits<double>::infinity(),
                        .int8 = std::numeric_limits<double>::infinity()};
  for (int turn = 0; turn < kTurns; ++turn) {
    shortest.f32 = std::min(shortest.f32, seconds_of(executable, f32));
    shortest.int8 = std::min(shortest.int8, seconds_of(executable, int8));
  }
  return shortest;
}

}  // namespace

std::map<std::string, ProductTimes> time_products(const Program& program, const Int8Network& network,
                                                  const Backend& backend,
                                                  const std::function<void()>& between) {
  std::map<std::string, ProductTimes> times;
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

}  // namespace trainer
