// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <thread>

#include "core/graph/ops/cross_entropy_sums.h"
#include "core/graph/ops/linear.h"
#include "core/optim/optimizer.h"
#include "core/step/stages.h"
#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"
#include "tests/reference/thread_group.h"

using namespace trainer;

namespace {

constexpr int64_t kSplitBatch = 8, kSplitFeatures = 6, kSplitClasses = 5;

/// The division of a global batch of eight samples.
struct Split {
  int64_t micro_batches = 1, ranks = 1;
  int64_t rows() const { return kSplitBatch / micro_batches / ranks; }
};

/// A linear layer under a loss over valid targets, with all parts of a training step.
Program split_program(const Split& split, const std::string& optimizer, bool scaled) {
  Program program;
  program.entries.emplace_back(entry_name::kTrainStep);
  Builder build(program, program.entries[0]);
  const int64_t rows = split.rows();
  const TensorId x = program.input("x", {{rows, kSplitFeatures}, DType::f32});
  const TensorId labels = program.input("labels", {{rows}, DType::i32});
  const TensorId weights = program.input("weights", {{rows}, DType::f32});
  const Initial drawn{.kind = Initial::Kind::uniform, .a = -1, .b = 1, .table = {}};
  const TensorSpec matrix{{kSplitClasses, kSplitFeatures}, DType::f32};
  const TensorId w = program.persistent("w", matrix, Role::parameter, drawn);
  const TensorId of_classes =
      program.persistent(state_name::kClassWeights, {{kSplitClasses}, DType::f32}, Role::constant,
                         {.kind = Initial::Kind::table, .a = 0, .b = 0, .table = {1, 2, 0.5f, 3, 0.25f}});
  const CrossEntropySettings settings{.label_smoothing = 0.1, .ignore_index = 2};
  const auto sums = build.emit_all(std::make_shared<CrossEntropySums>(settings),
                                   {build.emit<Linear>({x, w, kNone}), labels, weights, of_classes});
  program.entries[0].outputs = {{output_name::kLoss, sums[0]}, {output_name::kLossWeight, sums[1]}};
  run_passes(program, {autodiff(scaled), accumulate(split.micro_batches), sum_losses(),
                       data_parallel(
                           {.replicas = split.ranks},
                           std::vector<int64_t>(static_cast<size_t>(split.ranks), split.micro_batches), 64)});
  append_update(*optimizer_from(optimizer), program, program.entry(updating_entry(program)), {0.5f});
  run_passes(program, {dead_code()});
  return program;
}

struct Stepped {
  double loss = 0;
  std::vector<double> weights;
};

/// Two steps of one rank. Most labels to ignore are in the first rows, so that parts have unequal weights.
Stepped two_steps(Session& session, const Program& program, const Split& split, int64_t rank) {
  const std::vector<float> labels = {2, 2, 2, 0, 1, 3, 2, 4};
  Stepped result;
  for (int step = 0; step < 2; ++step) {
    RandomStream random(random_key(5, "split"), static_cast<uint32_t>(step));
    std::vector<float> x(kSplitBatch * kSplitFeatures);
    for (float& value : x) value = 2 * random.next_uniform() - 1;
    const auto part = [&](const std::vector<float>& all, int64_t micro) {
      const auto size = static_cast<int64_t>(all.size()) / split.micro_batches / split.ranks;
      const auto from = all.begin() + (rank * split.micro_batches + micro) * size;
      return std::vector<float>(from, from + size);
    };
    for (int64_t micro = 0; micro < split.micro_batches; ++micro) {
      session.set({{"x", part(x, micro)},
                   {"labels", part(labels, micro)},
                   {"weights", std::vector<float>(static_cast<size_t>(split.rows()), 1.0f / kSplitBatch)}});
      if (split.micro_batches == 1) {
        session.run(entry_name::kTrainStep);
      } else {
        const bool last = split.ranks > 1 && micro + 1 == split.micro_batches;
        session.run(micro == 0 ? entry_name::kAccumulateFirst
                    : last     ? entry_name::kAccumulateLast
                               : entry_name::kAccumulateNext);
      }
    }
    if (split.micro_batches > 1) session.run(entry_name::kUpdate);
  }
  result.loss = session.output(updating_entry(program), output_name::kLoss)[0];
  result.weights = session.persistent("w");
  return result;
}

/// Every rank's state after two steps.
std::vector<Stepped> train_split(const Split& split, const std::string& optimizer, bool scaled) {
  const Program program = split_program(split, optimizer, scaled);
  test::ThreadGroup table(static_cast<size_t>(split.ranks));
  std::vector<Stepped> results(static_cast<size_t>(split.ranks));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < results.size(); ++rank) {
    threads.emplace_back([&, rank] {
      test::ThreadProcessGroup seat(table, rank);
      const Backend backend = make_cpu_backend(1, nullptr, false, &seat);
      Session session(program, backend);
      results[rank] = two_steps(session, program, split, static_cast<int64_t>(rank));
    });
  }
  for (std::thread& each : threads) each.join();
  return results;
}

}  // namespace

TEST_CASE("no split of a batch into micro-batches and ranks moves a mean over valid targets") {
  for (const std::string optimizer :
       {"sgd", "{name: sgd, clip_norm: 0.05}", "{name: sgd, clip_value: 0.02}"}) {
    for (const bool scaled : {false, true}) {
      const Stepped whole = train_split({}, optimizer, scaled)[0];
      for (const Split& split : {Split{2, 1}, Split{4, 1}, Split{1, 2}, Split{2, 2}, Split{1, 4}}) {
        for (const Stepped& found : train_split(split, optimizer, scaled)) {
          INFO(fmt::format("{}, scaled {}, {} micro-batches, {} ranks", optimizer, scaled,
                           split.micro_batches, split.ranks));
          CHECK(found.loss == Approx(whole.loss).epsilon(1e-6));
          CHECK(relative_error(found.weights, whole.weights) < 1e-6);
        }
      }
    }
  }
}
