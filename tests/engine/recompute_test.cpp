// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <optional>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/graph/operation.h"
#include "core/graph/ops/layer_norm.h"
#include "cpu/backend.h"
#include "tests/reference/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr int64_t kRecomputedBatch = 64;

const char* const kRecomputedNetwork = R"(
input: [3, 20, 20]
layers:
  - conv2d: {out_channels: 32, kernel_size: 3, padding: 1, bias: false}
  - batch_norm
  - relu: {name: a}
  - conv2d: {out_channels: 32, kernel_size: 3, padding: 1, bias: false}
  - batch_norm
  - relu
  - dropout: {p: 0.2}
  - conv2d: {out_channels: 32, kernel_size: 1, bias: false}
  - batch_norm: {name: b}
  - add: {inputs: [b, a]}
  - gelu
  - max_pool2d: 2
  - conv2d: {out_channels: 17, kernel_size: 3, padding: 1}
  - silu
  - flatten
  - linear: {out_features: 7}
)";

/// A residual stream over rows of 31 features, with normalisations of the kind `norm`.
std::string recomputed_stream(const std::string& norm) {
  std::string layers =
      "input: [3, 20, 20]\nlayers:\n  - flatten\n  - reshape: [12, 100]\n  - linear: {name: s0, "
      "out_features: 31}\n";
  for (int block = 0; block < 6; ++block) {
    layers += fmt::format(
        "  - {1}: {{inputs: [s{0}]}}\n  - linear: 64\n  - gelu\n  - linear: {{name: b{0}, out_features: "
        "31}}\n"
        "  - add: {{name: s{2}, inputs: [s{0}, b{0}]}}\n",
        block, norm, block + 1);
  }
  return layers + fmt::format("  - {}\n  - flatten\n  - linear: 7\n", norm);
}

Program recomputed_program_with(const Recompute& setting, const std::string& text = kRecomputedNetwork,
                                std::optional<DType> low = std::nullopt) {
  const Network network = network_from(text);
  Program program = forward_program(network, kRecomputedBatch);
  run_passes(program, {fuse_residual(), fuse_relu()});
  if (low) run_passes(program, {mixed_precision(*low)});
  run_passes(program, {autodiff(), fuse_gradient_sum(), recompute(setting)});
  append_update(*optimizer_from("{name: sgd, momentum: 0.9}"), program, program.entry(entry_name::kTrainStep),
                {0.05f});
  run_passes(program, {dead_code()});
  return program;
}

/// Every persistent tensor after three steps.
std::vector<std::vector<double>> trained(const Program& program, int64_t& scratch_bytes,
                                         const Backend& backend = make_cpu_backend(2)) {
  Session session(program, backend);
  for (uint32_t step = 0; step < 3; ++step) {
    RandomStream random(random_key(5, "batch"), step);
    std::vector<float> images(kRecomputedBatch * 1200), labels(kRecomputedBatch), index(kRecomputedBatch);
    for (float& value : images) value = random.next_uniform();
    for (float& value : labels) value = static_cast<float>(random.next_below(7));
    for (size_t i = 0; i < index.size(); ++i) index[i] = static_cast<float>(i);
    session.set({{input_name::kImages, images},
                 {input_name::kLabels, labels},
                 {input_name::kSampleIndex, index},
                 {input_name::kWeights, std::vector<float>(kRecomputedBatch, 1.0f / kRecomputedBatch)}});
    session.run(entry_name::kTrainStep);
  }
  std::vector<std::vector<double>> all;
  for (const Tensor& tensor : program.tensors) {
    if (is_persistent(tensor.role)) all.push_back(session.persistent(tensor.name));
  }
  scratch_bytes = session.executable().plan().entry(entry_name::kTrainStep).scratch_bytes;
  return all;
}

}  // namespace

TEST_CASE("what is forgotten and made again changes no bit of a training, and saves memory") {
  int64_t plain = 0, cheap = 0, full = 0, sized = 0;
  const auto expected = trained(recomputed_program_with({}), plain);
  CHECK(trained(recomputed_program_with({Recompute::Kind::cheap}), cheap) == expected);
  CHECK(trained(recomputed_program_with({Recompute::Kind::full}), full) == expected);
  CHECK(trained(recomputed_program_with({Recompute::Kind::size, plain * 2 / 3}), sized) == expected);
  CHECK(cheap < plain);
  CHECK(full < cheap);
  CHECK(sized < plain);
}

TEST_CASE("a normalisation is made again from the sum that it has put out") {
  const std::string norm = GENERATE("layer_norm", "rms_norm");
  const std::string stream = recomputed_stream(norm);
  const auto low = GENERATE(std::optional<DType>{}, std::optional(DType::bf16));
  const bool on_reference = GENERATE(false, true);
  const Backend backend = on_reference ? make_reference_backend(true) : make_cpu_backend(2, nullptr, true);
  if (low && backend.planner->set_precision(Precision::amp_bf16))
    return;  // this processor cannot even emulate it
  INFO(norm << (low ? " bf16" : " f32") << (on_reference ? " reference" : " cpu"));
  Program again = recomputed_program_with({Recompute::Kind::cheap}, stream, low);
  int made = 0;
  for (const Node& node : again.entry(entry_name::kTrainStep).nodes) {
    if (!node.again || node.op->name() != norm) continue;
    CHECK(node.inputs[LayerNorm::kResidual] == kNone);
    ++made;
  }
  CHECK(made >= 5);
  int64_t plain = 0, cheap = 0;
  const auto expected = trained(recomputed_program_with({}, stream, low), plain, backend);
  CHECK(trained(again, cheap, backend) == expected);
  CHECK(cheap < plain * 4 / 5);
}
