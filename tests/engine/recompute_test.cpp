// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "cpu/backend.h"
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

Program recomputed_program_with(const Recompute& setting) {
  const Network network = network_from(kRecomputedNetwork);
  Program program = forward_program(network, kRecomputedBatch);
  run_passes(program, {fuse_residual(), fuse_relu(), autodiff(), fuse_gradient_sum(), recompute(setting)});
  optimizer_from("{name: sgd, momentum: 0.9}")
      ->append_update(program, program.entry(entry_name::kTrainStep), {0.05f});
  run_passes(program, {dead_code()});
  return program;
}

/// Every persistent tensor after three steps.
std::vector<std::vector<double>> trained(const Program& program, int64_t& scratch_bytes) {
  const auto backend = make_cpu_backend(2);
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
