// SPDX-License-Identifier: Apache-2.0
#include "core/session/timing.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "core/graph/names.h"
#include "core/graph/ops/embedding.h"
#include "core/host/limits.h"
#include "core/recipe/step_work.h"
#include "core/train/generation.h"
#include "core/train/synthetic_inputs.h"

namespace trainer {
namespace {

/// Times of single nodes vary little, and a run of them is slow on a GPU.
constexpr int64_t kMostLayerRuns = 20;
constexpr int64_t kPromptRuns = 10;

/// Every table of tokens has a row for the tokens below this.
int64_t known_tokens(const Program& program) {
  int64_t least = std::numeric_limits<int32_t>::max();
  for (const Entry& entry : program.entries) {
    for (const Node& node : entry.nodes) {
      if (dynamic_cast<const Embedding*>(node.op.get()) != nullptr)
        least = std::min(least, program.spec(node.inputs[Embedding::kTable]).shape[0]);
    }
  }
  return least;
}

/// A step's weights are shares of the global batch; others are 1.
SyntheticBounds bounds_of(const Job& job) {
  const bool trains = job.use.purpose == Purpose::train;
  return {.tokens = known_tokens(job.program),
          .classes = std::max<int64_t>(1, class_count(job.spec)),
          .weight = trains ? 1 / static_cast<float>(job.spec.batch().global_batch) : 1};
}

/// Runs of one entry, and whether each reads a batch.
struct EntryRuns {
  size_t entry;
  int64_t times;
  bool reads_batch;
};

std::vector<EntryRuns> step_runs(const Job& job, const Executable& executable) {
  std::vector<EntryRuns> runs;
  for (const auto& [entry, times] : entries_of_step(job))
    runs.push_back({.entry = executable.entry(entry->name),
                    .times = static_cast<int64_t>(times),
                    .reads_batch = entry->name != entry_name::kUpdate});
  return runs;
}

/// With random labels and the same batch again and again, a network would soon have weights that are not
/// finite, so the learning rate is 0.
void keep_weights(Executable& executable) {
  if (const TensorId rates = executable.tensor(state_name::kLearningRates); rates != kNone)
    executable.fill(rates, 0);
}

std::function<void()> training_step_of(const Job& job, Executable& executable, SyntheticInputs& inputs) {
  keep_weights(executable);
  return [&executable, &inputs, runs = step_runs(job, executable)] {
    for (const EntryRuns& each : runs) {
      const auto run = [&] { executable.run(each.entry); };
      for (int64_t i = 0; i < each.times; ++i) each.reads_batch ? inputs.with_batch(run) : run();
    }
  };
}

std::function<void()> prediction_of(Executable& executable, SyntheticInputs& inputs) {
  const size_t entry = executable.entry(entry_name::kPredict);
  const TensorId logits = executable.plan().entries[entry].output(output_name::kLogits);
  return [&executable, &inputs, entry, logits] {
    inputs.with_batch([&] { executable.run(entry); });
    static_cast<void>(executable.read(logits));
  };
}

Timing time_batches(const Job& job, Executable& executable, int64_t runs) {
  const bool trains = job.use.purpose == Purpose::train;
  SyntheticInputs inputs(executable, bounds_of(job));
  const std::function<void()> run =
      trains ? training_step_of(job, executable, inputs) : prediction_of(executable, inputs);
  Timing timing{.batch = trains ? job.spec.batch().rank_batch() : job.spec.batch().micro_batch};
  timing.runs = time_runs(executable.device(), kWarmUpRuns, runs, run);
  timing.layers = time_layers(executable, std::min(runs, kMostLayerRuns), run);
  return timing;
}

/// A prompt of half the positions, and after it a token a run. At the last position the token is repeated.
Timing time_generation(const Job& job, Executable& executable, int64_t runs) {
  const int64_t positions = job.spec.recipe().model.input[0];
  Generation generation(executable, positions);
  const std::vector<int32_t> prompt(static_cast<size_t>(std::max<int64_t>(1, positions / 2)), 0);
  const std::vector<int32_t> tokens(static_cast<size_t>(generation.sequences()), 0);
  const auto read_prompt = [&] { generation.start(prompt); };
  Timing timing{.batch = generation.sequences()};
  // The last token of a prompt is the next token's run.
  const auto read = static_cast<int64_t>(prompt.size()) - 1;
  if (read > 0)
    timing.prompt = PromptTimes{read * generation.sequences(),
                                time_runs(executable.device(), 1, std::min(runs, kPromptRuns), read_prompt)};
  const auto next_token = [&] {
    static_cast<void>(generation.next());
    if (generation.length() < positions) generation.append(tokens);
  };
  read_prompt();
  timing.runs = time_runs(executable.device(), kWarmUpRuns, runs, next_token);
  timing.layers = time_layers(executable, std::min(runs, kMostLayerRuns), next_token);
  return timing;
}

}  // namespace

Timing time_job(const Job& job, Device& device, int64_t runs) {
  Executable executable(job.plan, device, job.spec.recipe().runtime.cuda_graph);
  // A graph that cannot be captured is an error: the times would not be those of training.
  initialize(executable, job.spec.seed(), DrawingThreads{thread_limit(job.spec.ranks_on_host()).value});
  return job.use.purpose == Purpose::generate ? time_generation(job, executable, runs)
                                              : time_batches(job, executable, runs);
}

}  // namespace trainer
