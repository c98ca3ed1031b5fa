// SPDX-License-Identifier: Apache-2.0
#include "core/session/metrics_reference.h"

#include <fmt/format.h>

#include <string_view>

#include "core/engine/device_reading.h"
#include "core/train/time_shares.h"

namespace trainer {
namespace {

constexpr std::string_view kHead =
    "# Keys of metrics and summary\n\n"
    "`trainer schema --metrics` prints this page. Each line of `metrics.jsonl` is a JSON object with the "
    "keys of "
    "the first\ntable, as far as they apply; CSV and TensorBoard have the same. `summary.json` has those of "
    "the "
    "second, where a dot\nmeans an object within an object. A number that is not finite is `null`, and its "
    "key is "
    "listed in `non_finite`.\n";

std::string table(const std::vector<ResultKey>& keys) {
  std::string text = "| key | unit | meaning |\n|---|---|---|\n";
  for (const ResultKey& key : keys)
    text += fmt::format("| `{}` | {} | {} |\n", key.key, key.unit, key.meaning);
  return text;
}

}  // namespace

std::vector<ResultKey> metrics_keys() {
  std::vector<ResultKey> keys = {
      {"step", "", "steps so far"},
      {"updates", "", "steps so far that changed the weights"},
      {"epoch", "", "passes over the samples so far"},
      {"split", "", "`train`, `validation`, or `guard` for a guard's decision"},
      {"loss", "", "mean since the line before; of a validation line, over all its samples"},
      {"METRIC", "", "each of `validation.metrics`, in lines of validation"},
      {"ema_METRIC", "", "the same of the averaged weights, with `training.ema`"},
      {"lr", "", "learning rate of the last step"},
      {"grad_norm", "", "L2 norm of the gradients of the last step, if it is computed"},
      {"samples_per_s", "1/s", "samples trained since the line before, without evaluations and saves"},
      {"tokens_per_s", "1/s", "the same in tokens"},
      {"flops_per_s", "1/s",
       "floating-point operations of the plan on all ranks, those done again to save memory included"},
      {"pruned_share", "0 to 1", "share of the weights of compression.prune that are zero"},
      {"flops_share", "0 to 1", "the same as a share of what the GPU's rates allow, where they are known"},
      {"data_wait_ms", "ms a step", "waiting for batches"},
      {"forward_ms", "ms a step", "forward pass"},
      {"backward_ms", "ms a step", "backward pass"},
      {"update_ms", "ms a step", "the optimiser's update"},
      {"host_ms", "ms a step", "time of the host to enqueue a step on a GPU"},
      {"memory_bytes", "bytes", "main memory of the process"},
      {"world_size", "", "number of ranks, if there are several"},
      {"communication_ms", "ms a step", "time that an average rank waits for the others"},
      {"slowest_rank", "", "the rank that computes longest"},
      {"rankN_compute_ms", "ms a step", "time of rank N without waiting for others"},
      {"rankN_data_wait_ms", "ms a step", "time of rank N that it waits for its batches"},
      {"loss_scale", "", "factor of the loss with fp16"},
      {"skipped", "", "steps so far that changed nothing"},
      {"event", "",
       "a guard's decision: `skip`, `roll_back` or `stop`; `undecided` for an evaluation that does not "
       "decide "
       "on the best: at a pause, or before `compression.prune.end` or `compression.quantize.begin`"},
      {"reason", "", "its reason"},
      {"in_a_row", "", "steps skipped in a row for such reasons"},
      {"failed_step", "", "the step after which a guard rolled back"},
      {"time", "s", "when the line was written, in Unix seconds"},
      {"non_finite", "", "keys whose numbers are not finite"},
  };
  for (const TimePart& part : kTimeParts)
    keys.push_back({std::string(part.key), "0 to 1",
                    fmt::format("share of the time since the line before: {}", part.text)});
  for (const DeviceNumber& number : kDeviceNumbers)
    keys.push_back({std::string(number.key), std::string(number.unit), std::string(number.meaning)});
  return keys;
}

std::vector<ResultKey> summary_keys() {
  std::vector<ResultKey> keys = {
      {"finished", "", "whether all steps are done, or the run ended early as its recipe says"},
      {"run.name", "", "as in the recipe"},
      {"steps", "", "steps done"},
      {"ranks", "", "processes that trained together"},
      {"training.loss", "", "of the last line of `split` `train`"},
      {"training.seconds", "s", "training in this process, without evaluations and saves"},
      {"training.first_step_seconds", "s", "from the start of this process to the end of its first step"},
      {"data.unreadable_samples", "", "samples that could not be read"},
      {"memory.planned_bytes", "bytes", "memory of the plan"},
      {"memory.peak_bytes", "bytes", "the most main memory that the process had"},
      {"device.joules_per_sample", "J", "energy of the device, where it tells"},
      {"device.memory_bytes", "bytes", "the most memory in use on a GPU, by any process"},
      {"device.throttling", "", "how often and why the device ran slower than it could"},
      {"early_stop.stopped", "", "whether the run ended early"},
      {"early_stop.best", "", "the best value of the metric that ends it"},
      {"early_stop.best_step", "", "its step"},
      {"best.metric", "", "the metric that chooses the best weights"},
      {"best.value", "", "its best value"},
      {"best.step", "", "its step"},
      {"validation.last.METRIC", "", "of the last evaluation"},
      {"validation.best.METRIC", "", "the best of all evaluations, for each metric by itself"},
      {"non_finite", "", "keys whose numbers are not finite"},
  };
  for (const TimePart& part : kTimeParts)
    keys.push_back({summary_key(part), "s", fmt::format("this process: {}", part.text)});
  return keys;
}

std::string metrics_reference() {
  return fmt::format("{}\n## metrics.jsonl\n\n{}\n## summary.json\n\n{}", kHead, table(metrics_keys()),
                     table(summary_keys()));
}

}  // namespace trainer
