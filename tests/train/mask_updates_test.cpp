// SPDX-License-Identifier: Apache-2.0
#include "core/train/mask_updates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/rng.h"
#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/reference/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

namespace trainer {
namespace {

// 17 channels: the CPU's layout of the weights has padding.
const char* const kPruned = R"(
input: [4, 5, 5]
layers:
  - conv2d: {out_channels: 17, kernel_size: 3, name: conv}
  - batch_norm: {name: norm}
  - relu
  - flatten
  - linear: {out_features: 6, name: hidden}
  - relu
  - linear: {out_features: 3, name: fc}
)";
constexpr int64_t kMaskedRows = 3;

PruneSpec spec_of(std::vector<std::string> except = {}, bool two_of_four = false) {
  return {.except = std::move(except), .two_of_four = two_of_four, .origin_of = [](const std::string&) {
            return Origin{{.file = "p.yaml"}, "compression.prune"};
          }};
}

/// With momentum, averages, a skipped step where the loss is not finite and this many micro-batches.
Program pruned_program(const PruneSpec& spec, int64_t micro_batches = 1) {
  const auto optimizer = optimizer_from("{name: sgd, lr: 0.1, momentum: 0.9, weight_decay: 0.01}");
  const StepGuards guards{.loss = true, .counts = true};
  Program program = forward_program(network_from(kPruned), kMaskedRows);
  run_passes(program, {choose_pruned(spec), fuse_relu(), autodiff(), accumulate(micro_batches), sum_losses(),
                       prune_gradients()});
  append_update(*optimizer, program, program.entry(updating_entry(program)), {0.1f, 0.1f, 0.1f, 0.1f},
                guards);
  run_passes(program, {guard_statistics(), prune(), average_weights(0.5), dead_code()});
  return program;
}

class PrunedRun {
 public:
  PrunedRun(const Backend& backend, const PruneSpec& spec, const PruningSettings& settings,
            int64_t micro_batches = 1)
      : program_(pruned_program(spec, micro_batches)),
        session_(program_, backend, 5),
        masks_(session_.executable(), settings, program_.pruned),
        micro_batches_(micro_batches) {}

  void step(uint64_t seed, bool is_bad = false) {
    RandomStream random(seed);
    for (int64_t i = 0; i < micro_batches_; ++i) {
      std::vector<float> images(kMaskedRows * 4 * 5 * 5);
      for (float& value : images) value = 2 * random.next_uniform() - 1;
      if (is_bad) images[0] = std::numeric_limits<float>::infinity();
      session_.set({{"images", images}, {"labels", {0, 1, 2}}, {"weights", {0.3f, 0.3f, 0.4f}}});
      if (micro_batches_ == 1) {
        session_.run(entry_name::kTrainStep);
      } else {
        session_.run(i == 0 ? entry_name::kAccumulateFirst : entry_name::kAccumulateNext);
      }
    }
    if (micro_batches_ > 1) session_.run(entry_name::kUpdate);
  }
  double update(int64_t step) { return masks_.update(step); }
  std::vector<double> values(const std::string& name) const { return session_.persistent(name); }
  const std::vector<PrunedWeight>& pruned() const { return program_.pruned; }
  Session& session() { return session_; }

 private:
  Program program_;
  Session session_;
  MaskUpdates masks_;
  int64_t micro_batches_;
};

int64_t zeros(const std::vector<double>& values) {
  return std::ranges::count(values, 0.0);
}

/// Whether weights and averages are zero just where the masks are; counts the zeros of each mask.
void check_masks(const PrunedRun& run, const std::vector<int64_t>& counts) {
  REQUIRE(run.pruned().size() == counts.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    const std::string& name = run.pruned()[i].name;
    INFO(name);
    const std::vector<double> mask = run.values(name + ".mask"), weights = run.values(name),
                              average = run.values(name + ".ema");
    CHECK(zeros(mask) == counts[i]);
    bool agree = true;
    for (size_t k = 0; k < mask.size(); ++k)
      agree = agree && (weights[k] == 0) == (mask[k] == 0) && (average[k] == 0) == (mask[k] == 0);
    CHECK(agree);
  }
}

}  // namespace

TEST_CASE("pruned weights stay zero in steps, skipped ones and micro-batches, on both backends alike") {
  for (const int64_t micro_batches : {1, 2}) {
    std::vector<std::vector<double>> ends;
    for (const bool on_cpu : {false, true}) {
      const Backend backend = on_cpu ? make_cpu_backend(2) : make_reference_backend();
      PrunedRun run(backend, spec_of(), {.sparsity = 0.5, .begin = 1, .end = 3}, micro_batches);
      INFO(micro_batches << " micro-batches, on the CPU: " << on_cpu);
      CHECK(run.update(0) == 0);
      run.step(1);
      CHECK(run.update(2) == Approx(0.4375).margin(0.01));
      check_masks(run, {268, 402, 8});
      run.step(2);
      run.step(3, true);
      CHECK(run.values("counter.updates") == std::vector<double>{2});
      check_masks(run, {268, 402, 8});
      CHECK(run.update(3) == 0.5);
      run.step(4);
      check_masks(run, {306, 459, 9});
      ends.push_back(run.values("hidden.weight"));
    }
    CHECK(relative_error(ends[1], ends[0]) < 1e-4);
  }
}

TEST_CASE(
    "the gradient of what is pruned counts in no norm, and a layer that the loss does not read is left") {
  const auto optimizer = optimizer_from("{name: sgd, lr: 0.1, clip_norm: 1000}");
  const std::string network =
      "{input: [1, 2, 4], layers: [{flatten: {name: flat}}, {linear: {out_features: 3, name: dead}}, "
      "{linear: {out_features: 3, name: fc, bias: false, inputs: [flat]}}]}";
  Program program = forward_program(network_from(network), kMaskedRows);
  run_passes(program, {choose_pruned(spec_of()), autodiff(), prune_gradients()});
  append_update(*optimizer, program, program.entry(entry_name::kTrainStep), {0.1f});
  run_passes(program, {prune(), dead_code()});
  REQUIRE(program.pruned.size() == 1);
  CHECK(program.pruned[0].name == "fc.weight");
  const Backend cpu = make_cpu_backend(1);
  Session session(program, cpu);
  session.set({{"images", std::vector<float>(kMaskedRows * 8, 1)},
               {"labels", {0, 1, 2}},
               {"weights", {0.5f, 0.25f, 0.25f}}});
  session.run(entry_name::kTrainStep);
  const double whole = session.output(entry_name::kTrainStep, output_name::kGradientNorm)[0];
  session.set("fc.weight.mask", std::vector<float>(24, 0));
  session.run(entry_name::kTrainStep);
  CHECK(whole > 0);
  CHECK(session.output(entry_name::kTrainStep, output_name::kGradientNorm)[0] == 0);
}

TEST_CASE("a global share takes more of the tensors with smaller weights") {
  const Backend cpu = make_cpu_backend(1);
  PrunedRun run(cpu, spec_of({"fc.*"}), {.sparsity = 0.5, .is_global = true});
  const std::vector<double> conv = run.values("conv.weight"), hidden = run.values("hidden.weight");
  CHECK(run.update(0) == 0.5);
  CHECK(run.pruned().size() == 2);
  const int64_t of_conv = zeros(run.values("conv.weight")), of_hidden = zeros(run.values("hidden.weight"));
  CHECK(of_conv + of_hidden == std::ssize(conv) / 2 + std::ssize(hidden) / 2);
  // What is gone is smaller than anything that is left.
  double largest = 0, least = 1e9;
  for (const auto& [name, before] : {std::pair{"conv.weight", conv}, std::pair{"hidden.weight", hidden}}) {
    const std::vector<double> after = run.values(name);
    for (size_t i = 0; i < after.size(); ++i)
      (after[i] == 0 ? largest : least) =
          after[i] == 0 ? std::max(largest, std::abs(before[i])) : std::min(least, std::abs(before[i]));
  }
  CHECK(largest <= least);
  CHECK(zeros(run.values("fc.weight")) == 0);
}

TEST_CASE("2:4 leaves two of each four input channels") {
  const Backend cpu = make_cpu_backend(1);
  PrunedRun run(cpu, spec_of({"hidden.*", "fc.*"}, true), {.sparsity = 0.5, .two_of_four = true});
  CHECK(run.update(0) == 0.5);
  run.step(1);
  const std::vector<double> weights = run.values("conv.weight");  // (17, 4, 3, 3)
  for (size_t out = 0; out < 17; ++out) {
    for (size_t at = 0; at < 9; ++at) {
      int left = 0;
      for (size_t in = 0; in < 4; ++in) left += weights[(out * 4 + in) * 9 + at] != 0 ? 1 : 0;
      if (left != 2) FAIL("not two of four");
    }
  }
}

TEST_CASE("weights of products that training changes are pruned, and no others") {
  const auto names = [](const std::string& network, PruneSpec spec) {
    std::vector<std::string> found;
    for (const PrunedWeight& weight : pruned_weights(forward_program(network_from(network), 2), spec))
      found.push_back(weight.name + fmt::format("@{}", weight.dimension));
    std::ranges::sort(found);
    return found;
  };
  using Names = std::vector<std::string>;
  CHECK(names(kPruned, spec_of()) == Names{"conv.weight@1", "fc.weight@1", "hidden.weight@1"});
  PruneSpec only = spec_of({"fc.*"});
  only.only = {"conv*", "fc*"};
  CHECK(names(kPruned, only) == Names{"conv.weight@1"});
  const std::string upsampling = R"(
input: [4, 6, 6]
layers:
  - conv_transpose2d: {out_channels: 3, kernel_size: 2, stride: 2, name: up}
  - flatten
  - linear: {out_features: 3, name: fc}
)";
  CHECK(names(upsampling, spec_of()) == Names{"fc.weight@1", "up.weight@0"});
  CHECK_THROWS_WITH(names(kPruned, spec_of({"nothing.*"})), Catch::Matchers::ContainsSubstring("nothing.*"));
  CHECK_THROWS_WITH(names(kPruned, spec_of({"*"})), Catch::Matchers::ContainsSubstring("nothing to prune"));
  CHECK_THROWS_WITH(names(kPruned, spec_of({}, true)),
                    Catch::Matchers::ContainsSubstring("hidden.weight 6x153"));
  const auto grouped = [](int64_t groups) {
    return fmt::format(
        "input: [8, 6, 6]\nlayers: [conv_transpose2d: {{out_channels: 32, groups: {}, "
        "kernel_size: 2, name: up}}, flatten, linear: {{out_features: 3, name: fc}}]",
        groups);
  };
  CHECK(names(grouped(2), spec_of({"fc.*"}, true)) == Names{"up.weight@0"});
  CHECK_THROWS_WITH(names(grouped(4), spec_of({"fc.*"}, true)),
                    Catch::Matchers::ContainsSubstring("up.weight 8x8x2x2 (2)"));
  CHECK_THROWS_WITH(names(grouped(8), spec_of({"fc.*"}, true)),
                    Catch::Matchers::ContainsSubstring("up.weight 8x4x2x2 (1)"));
}

}  // namespace trainer
