// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/graph/operation.h"
#include "core/graph/ops/attention.h"
#include "core/step/stages.h"
#include "cpu/backend.h"
#include "tests/reference/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int64_t kAttentionBatch = 6, kAttentionLength = 20, kAttentionFeatures = 12;
constexpr int64_t kAttentionClasses = 5;

/// Two blocks of attention, one packed with fewer heads for keys, one of three inputs.
const char* const kAttentionNetwork = R"(
input: [1, 20, 12]
layers:
  - reshape: {name: x, shape: [20, 12]}
  - linear: {out_features: 20, bias: false}
  - attention: {name: a, heads: 6, kv_heads: 2, causal: true, sliding_window: 7, dropout: 0.2}
  - add: {name: b, inputs: [a, x]}
  - linear: {name: q, inputs: [b], out_features: 8, bias: false}
  - linear: {name: k, inputs: [b], out_features: 8, bias: false}
  - linear: {name: v, inputs: [b], out_features: 8}
  - attention: {heads: 2, inputs: [q, k, v], scale: 0.3}
  - gelu
  - flatten
  - linear: 5
)";

/// Inputs for the samples [begin, end) of a batch.
std::map<std::string, std::vector<float>> attention_batch(int64_t begin, int64_t end) {
  std::map<std::string, std::vector<float>> inputs;
  for (int64_t n = begin; n < end; ++n) {
    RandomStream random(random_key(5, "batch"), static_cast<uint32_t>(n));
    for (int64_t i = 0; i < kAttentionLength * kAttentionFeatures; ++i)
      inputs[input_name::kImages].push_back(2 * random.next_uniform() - 1);
    inputs[input_name::kLabels].push_back(static_cast<float>(random.next_below(kAttentionClasses)));
    inputs[input_name::kSampleIndex].push_back(static_cast<float>(n));
    inputs[input_name::kWeights].push_back(1.0f / kAttentionBatch);
  }
  return inputs;
}

using AttentionState = std::map<std::string, std::vector<double>>;

/// Every parameter after three steps.
AttentionState attention_trained(const std::vector<Pass>& passes, const Backend& backend,
                                 const std::string& network = kAttentionNetwork) {
  Program program = forward_program(network_from(network), kAttentionBatch);
  run_passes(program, passes);
  append_update(*optimizer_from("{name: sgd, lr: 0.1, momentum: 0.9}"), program,
                program.entry(entry_name::kTrainStep), {0.1f});
  run_passes(program, {dead_code()});
  Session session(program, backend);
  session.set(attention_batch(0, kAttentionBatch));
  for (int step = 0; step < 3; ++step) session.run(entry_name::kTrainStep);
  AttentionState state;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role == Role::parameter) state[tensor.name] = session.persistent(tensor.name);
  }
  return state;
}

double attention_difference(const AttentionState& a, const AttentionState& b) {
  double largest = 0;
  for (const auto& [name, values] : b) largest = std::max(largest, relative_error(a.at(name), values));
  return largest;
}

/// Sums of gradients over micro-batches of a step.
AttentionState summed_gradients(int64_t micro_batches, const Backend& backend) {
  const int64_t size = kAttentionBatch / micro_batches;
  Program program = forward_program(network_from(kAttentionNetwork), size);
  run_passes(program, {autodiff(), accumulate(2), dead_code()});
  Session session(program, backend);
  for (int64_t i = 0; i < micro_batches; ++i) {
    session.set(attention_batch(i * size, (i + 1) * size));
    session.run(i == 0 ? entry_name::kAccumulateFirst : entry_name::kAccumulateNext);
  }
  AttentionState sums;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role == Role::gradient_sum) sums[tensor.name] = session.persistent(tensor.name);
  }
  return sums;
}

}  // namespace

TEST_CASE("layers of attention train on the CPU as in the reference") {
  const auto cpu = make_cpu_backend(2);
  const Backend reference = make_reference_backend();
  CHECK(attention_difference(attention_trained({autodiff()}, cpu),
                             attention_trained({autodiff()}, reference)) < 1e-5);
}

TEST_CASE("attention that is made again changes no bit of a training") {
  std::string deep = "input: [1, 20, 12]\nlayers:\n  - reshape: [20, 12]\n";
  for (int block = 0; block < 6; ++block)
    deep +=
        "  - linear: {out_features: 36, bias: false}\n  - attention: {heads: 3, causal: true, dropout: "
        "0.1}\n";
  deep += "  - flatten\n  - linear: 5\n";
  const auto cpu = make_cpu_backend(2);
  const Recompute full{.kind = Recompute::Kind::full};
  for (const std::string& network : {std::string(kAttentionNetwork), deep}) {
    CHECK(attention_trained({autodiff(), recompute(full)}, cpu, network) ==
          attention_trained({autodiff()}, cpu, network));
  }
  Program program = forward_program(network_from(deep), kAttentionBatch);
  run_passes(program, {autodiff(), recompute(full)});
  int64_t again = 0;
  for (const Node& node : program.entry(entry_name::kTrainStep).nodes)
    again += node.again && node.op->name() == "attention" ? 1 : 0;
  CHECK(again > 0);
}

TEST_CASE("attention trains in mixed precision, its sums in f32") {
  const auto cpu = make_cpu_backend(2, nullptr, true);
  if (cpu.planner->set_precision(Precision::amp_bf16)) return;  // this processor cannot even emulate it
  const std::vector<Pass> passes = {mixed_precision(DType::bf16), autodiff()};
  const Backend reference = make_reference_backend(true);
  CHECK(attention_difference(attention_trained(passes, cpu), attention_trained(passes, reference)) < 2e-2);
  Program program = forward_program(network_from(kAttentionNetwork), kAttentionBatch);
  run_passes(program, passes);
  for (const Node& node : program.entry(entry_name::kTrainStep).nodes) {
    if (node.op->name() != "attention") continue;
    CHECK(program.spec(node.outputs[0]).dtype == DType::bf16);
    CHECK(program.spec(node.outputs[1]).dtype == DType::f32);
  }
}

TEST_CASE("gradients of attention do not depend on how a batch is divided, with dropout") {
  const auto cpu = make_cpu_backend(2);
  const AttentionState whole = summed_gradients(1, cpu);
  CHECK(attention_difference(summed_gradients(2, cpu), whole) < 1e-5);
  CHECK(attention_difference(summed_gradients(3, cpu), whole) < 1e-5);
}

TEST_CASE("evaluation has no dropout in attention, and keeps no sums") {
  const Program program = forward_program(network_from(kAttentionNetwork), kAttentionBatch);
  const std::string text = to_text(program);
  CHECK_THAT(text, ContainsSubstring("{heads=6 kv_heads=2 causal window=7 p=0.2 key="));
  const Entry* evaluate = program.find_entry(entry_name::kEvaluate);
  REQUIRE(evaluate != nullptr);
  for (const Node& node : evaluate->nodes) {
    if (node.op->name() == "attention") CHECK(node.inputs[attention_input::kSample] == kNone);
  }
}
