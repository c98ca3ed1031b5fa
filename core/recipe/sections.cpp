// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/sections.h"

#include "core/tasks/task.h"

namespace trainer {
namespace {

constexpr const char *kAuto = "auto", *kNever = "never";

GuardSettings::Action action_named(const std::string& name) {
  using Action = GuardSettings::Action;
  if (name == "skip") return Action::skip;
  if (name == "rollback") return Action::roll_back;
  return name == "stop" ? Action::stop : Action::none;
}

}  // namespace

void RunSection::declare(Fields& fields) {
  fields.add("name", &name, "name of the run; default: the recipe's file name").does_not_affect_results();
  fields
      .add("output_dir", &output_dir,
           "the run's directory; {run.name}, {training.global_batch_size}, {hash} and other keys are "
           "replaced by their values")
      .does_not_affect_results();
  fields
      .add("deterministic", &deterministic,
           "use only GPU library algorithms whose results are bitwise identical from run to run; on CPUs all "
           "are")
      .does_not_affect_results();
  fields
      .add("resume", &resume,
           "checkpoint to resume from: auto (the newest of this run), never, or the path of a checkpoint or "
           "a run; eval and predict load weights from it, or from a .safetensors file")
      .path_where([](const std::string& text) { return text != kAuto && text != kNever; })
      .does_not_affect_results();
  fields
      .add("allow_changes", &allow_changes,
           "keys that may differ from the resumed run's, such as training.max_duration")
      .does_not_affect_results();
  fields
      .add("stop_after", &stop_after,
           "pause after this part of training.max_duration: evaluate, save and exit with 0; a larger value "
           "continues the run; default: do not pause")
      .at_least(1)
      .does_not_affect_results();
  fields
      .add("max_wall_time", &max_wall_time,
           "save and exit with 75 before this time has passed (without saving if it passes during start-up); "
           "default: the Slurm job's remaining time, or no limit")
      .at_least(1)
      .does_not_affect_results();
  fields
      .add("grace_period", &grace_period, "after a stop signal, exit with 75 within this time, saved or not")
      .at_least(1)
      .does_not_affect_results();
  fields
      .add("max_restarts", &max_restarts,
           "if this process starts the ranks: how often they may start again after a rank was lost "
           "(exit code 76), or stopped (75) other than by a request to this process or its time limit")
      .at_least(0)
      .at_most(1000)
      .does_not_affect_results();
  fields.add("seed", &seed, "seed of everything random: initial weights, order, augmentation, dropout")
      .at_least(0);
}

std::optional<FilePath> RunSection::resume_path() const {
  if (resume.written == kAuto || is_never()) return std::nullopt;
  return resume;
}

bool RunSection::is_never() const {
  return resume.written == kNever;
}

void CheckpointSection::declare(Fields& fields) {
  fields.add("interval", &interval, "how often to save; 0s: only when the run ends or is stopped")
      .at_least(0);
  fields.add("keep_latest", &keep_latest, "how many of the newest checkpoints to keep").at_least(2);
  fields.add("keep_best", &keep_best,
             "metric (loss, top1, ema_top1, ...) that decides which checkpoint is kept as the best, with its "
             "weights in "
             "model_best.safetensors; none; default: the first of validation.metrics, else loss, and none if "
             "interval is 0s");
}

void DeviceSection::declare(Fields& fields) {
  fields
      .add(
          "type", &type,
          "type of the device; auto: that of the checkpoint on resume, else cuda if there is a GPU, else cpu")
      .one_of({kAuto, "cpu", "cuda"});
  fields.add("index", &index, "GPU to use, of those that CUDA_VISIBLE_DEVICES shows")
      .at_least(0)
      .at_most(1023);
  fields
      .add("model", &model,
           "GPU that `trainer plan` plans for: auto (this machine's, else h200), a10, a100, b200, h100, "
           "h100_pcie, h200, l4, l40s, rtx4090, rtx5090, or a description.json")
      .path_where([](const std::string& text) { return text.ends_with(".json"); })
      .does_not_affect_results();
  fields
      .add("threads", &threads,
           "CPU threads; 0: one per physical core, or fewer if affinity, a cgroup or Slurm allows fewer")
      .at_least(0)
      .at_most(1024);
  fields.add("memory", &memory,
             "memory limit; default: all of the device's memory that a cgroup, Slurm or ulimit allows");
  fields
      .add("instructions", &instructions,
           "vector instructions that a CPU uses at most; auto: all it has. Ranks on unlike processors need "
           "those "
           "that all have, since they must compute the same bits")
      .one_of({kAuto, "sse41", "avx2", "avx512", "avx512_vnni", "avx512_bf16"})
      .does_not_affect_results();
  fields.add("emulate_bf16", &emulate_bf16,
             "emulate amp_bf16 on a processor without bf16 instructions; slow, for tests");
}

void MemorySection::declare(Fields& fields) {
  fields
      .add("recompute", &recompute,
           "activations to discard and recompute: none, cheap (no products), full, or a size to reach (2GiB)")
      .does_not_affect_results();
}

std::optional<Recompute> MemorySection::parsed_recompute() const {
  using Kind = Recompute::Kind;
  if (recompute == "none") return Recompute{Kind::none};
  if (recompute == "cheap") return Recompute{Kind::cheap};
  if (recompute == "full") return Recompute{Kind::full};
  const auto size = parse_byte_size(recompute);
  if (!size) return std::nullopt;
  return Recompute{Kind::size, size->bytes};
}

void RuntimeSection::declare(Fields& fields) {
  fields.add("autotune", &autotune,
             "time the available algorithms of each convolution, on a GPU also of each matrix product and "
             "attention, and keep the fastest; on a GPU they are cached for the user's other runs");
  fields
      .add("winograd", &winograd,
           "CPUs only; auto: use this program's own Winograd kernels for 3x3 convolutions if they are the "
           "fastest; off: use oneDNN for all convolutions")
      .one_of({kAuto, "off"});
  fields.add("cuda_graph", &cuda_graph,
             "GPUs only: replay each step as one CUDA graph instead of launching its kernels one by one");
}

/// Seconds; a week.
constexpr int64_t kMostTimeout = 7 * 24 * 3600;

void ParallelismSection::declare(Fields& fields) {
  fields
      .add(
          "data", &data,
          "data parallelism: this many groups of parallelism.tensor processes train together, each on its "
          "share of the global batch; auto: as many as the launcher (mpirun, srun, torchrun) started, else 1")
      .at_least(1)
      .at_most(65536)
      .does_not_affect_results();
  fields
      .add("bucket", &bucket,
           "bucket size: gradients are all-reduced in buckets of this size, overlapping the backward pass")
      .does_not_affect_results();
  fields
      .add("timeout", &timeout,
           "time after which a rank that waits for the others ends the run with exit code 76")
      .at_least(2)
      .at_most(kMostTimeout)
      .does_not_affect_results();
  fields
      .add("verify", &verify,
           "interval at which ranks verify that their weights are bitwise identical (1000ba, 1ep), also "
           "before each save; 0ba: never")
      .does_not_affect_results();
  fields.add("sync_batch_norm", &sync_batch_norm,
             "compute batch normalisation's statistics over the micro-batches of all ranks");
  fields
      .add("tensor", &tensor,
           "tensor parallelism: number of ranks that compute each sample together; attention is split by "
           "heads, "
           "linear layers by features, the embedding and the logits along the vocabulary")
      .at_least(1)
      .at_most(1024)
      .does_not_affect_results();
  fields
      .add("pipeline", &pipeline,
           "pipeline parallelism: number of groups of ranks with consecutive layers, which compute the "
           "micro-batches of a step one after another")
      .at_least(1)
      .at_most(1024)
      .does_not_affect_results();
  fields
      .add("cuts", &cuts,
           "names of the layers that the stages of the pipeline begin with, but the first; default: stages "
           "are balanced by FLOPs")
      .does_not_affect_results();
  fields
      .section("schedule", "the order of a pipeline's micro-batches",
               [&](Fields& f) {
                 f.add("name", &schedule,
                       "1f1b: few activations at once; gpipe: all forward passes before all backward passes; "
                       "interleaved: "
                       "1f1b with several stages on each rank, which idle less and send more")
                     .one_of({"1f1b", "gpipe", "interleaved"})
                     .bare()
                     .does_not_affect_results();
                 f.add("chunks", &chunks, "stages on each rank, if interleaved")
                     .at_least(2)
                     .at_most(64)
                     .does_not_affect_results();
               })
      .does_not_affect_results();
  fields
      .add("shard_optimizer", &shard_optimizer, "shard the optimizer's state across the ranks (ZeRO stage 1)")
      .does_not_affect_results();
  fields
      .add("shard_parameters", &shard_parameters,
           "shard parameters, gradients and the optimizer's state across all ranks (FSDP, ZeRO stage 3), or "
           "across groups of this many ranks (hybrid sharding)")
      .at_least(1)
      .does_not_affect_results();
  fields
      .add("launcher", &launcher,
           "program that starts the ranks on CPUs if this one is started alone: the path of an mpirun or "
           "mpiexec "
           "of Open MPI, MPICH or Intel MPI; auto: the mpirun in PATH, else the mpiexec")
      .does_not_affect_results();
  fields
      .add("hosts", &hosts,
           "file of hosts to start ranks on, in the launcher's form (mpirun --hostfile, mpiexec -f); "
           "default: this "
           "host")
      .does_not_affect_results();
}

PipelineSchedule::Kind ParallelismSection::parsed_schedule() const {
  if (schedule == "gpipe") return PipelineSchedule::Kind::gpipe;
  return schedule == "interleaved" ? PipelineSchedule::Kind::interleaved
                                   : PipelineSchedule::Kind::one_forward_one_backward;
}

void TrainingSection::declare(Fields& fields) {
  fields
      .add("max_duration", &max_duration,
           "how long to train: epochs (10ep), batches (500ba) or tokens (1000000tok)")
      .at_least(1);
  fields.add("global_batch_size", &global_batch_size, "samples per update, independent of the hardware")
      .at_least(1)
      .at_most(16777216);
  fields
      .add("micro_batch_size", &micro_batch_size,
           "samples per forward and backward pass on each rank; must divide the rank's share of "
           "global_batch_size; auto: as many as fit in memory; default: the whole share")
      .at_least(1)
      .does_not_affect_results();
  fields
      .add("precision", &precision,
           "number formats: fp32; tf32 (GPUs: fp32 with TF32 matrix products); amp_bf16, amp_fp16 (mixed "
           "precision: 16-bit products and activations, fp32 weights; amp_fp16 scales the loss)")
      .one_of({kPrecisionNames.begin(), kPrecisionNames.end()});
  fields.section(
      "ema", "exponential moving average of the weights, which is evaluated and saved too", [&](Fields& ema) {
        ema.add("decay", &ema_decay, "decay of the average per update, typically 0.999; default: no average")
            .at_least(0)
            .below(1);
        ema.add("warmup", &ema_warmup,
                "limit the decay of update t to (1 + t) / (10 + t), so that a short run's average soon "
                "forgets its "
                "first weights")
            .absent_as("false");
      });
}

void GuardSection::declare(Fields& fields) {
  fields
      .add("nonfinite", &nonfinite,
           "if the loss or a gradient is infinite or NaN: stop the run; skip: discard the step; rollback: as "
           "skip, and after max_skips in a row return to the last checkpoint")
      .one_of({"stop", "skip", "rollback"});
  fields
      .add("spike", &spike,
           "what to do if the loss is far above the recent ones, as for nonfinite; none: accept the step")
      .one_of({"none", "skip", "rollback", "stop"});
  fields
      .add("gradient_spike", &gradient_spike,
           "what to do if the joint 2-norm of all gradients, before clipping, is far above the recent ones")
      .one_of({"none", "skip", "rollback", "stop"});
  fields
      .add("spike_sigmas", &spike_sigmas,
           "threshold of a spike, in standard deviations above the mean of the recent losses or norms")
      .above(0);
  fields
      .add("spike_window", &spike_window,
           "number of recent steps to compare with; no spike is detected before half of them")
      .at_least(4)
      .at_most(65536);
  fields
      .add("max_skips", &max_skips,
           "steps that may be skipped in a row; after one more the run rolls back (rollback) or stops (skip)")
      .at_least(0);
  fields
      .add("max_rollbacks", &max_rollbacks,
           "maximum number of rollbacks; each skips the steps since the checkpoint")
      .at_least(0)
      .at_most(1000);
  fields.add("skip_steps", &skip_steps, "steps to skip in any case, counted from 1")
      .at_least(1)
      .at_most(16777216);
}

StepGuards GuardSection::step_guards(bool scales_loss) const {
  StepGuards guards;
  const bool watches_spikes = spike != "none" || gradient_spike != "none";
  guards.counts = nonfinite != "stop" || watches_spikes || !skip_steps.empty();
  guards.loss = guards.counts || !scales_loss;  // a scaled loss has its own way to skip
  if (watches_spikes) {
    guards.spike = SpikeLimit{.loss_sigmas = spike != "none" ? spike_sigmas : 0,
                              .norm_sigmas = gradient_spike != "none" ? spike_sigmas : 0,
                              .window = spike_window};
  }
  const bool rolls_back = nonfinite == "rollback" || spike == "rollback" || gradient_spike == "rollback";
  guards.skip_steps = skip_table(skip_steps, rolls_back ? max_rollbacks : 0);
  return guards;
}

GuardSettings GuardSection::settings() const {
  return {.nonfinite = action_named(nonfinite),
          .spike = action_named(spike),
          .gradient_spike = action_named(gradient_spike),
          .sigmas = spike_sigmas,
          .max_skips = max_skips,
          .max_rollbacks = max_rollbacks};
}

void ValidationSection::declare(Fields& fields) {
  fields.add("interval", &interval, "how often to evaluate; 0ep: only at the end")
      .at_least(0)
      .does_not_affect_results();
  fields.add("metrics", &metrics, "metrics to report besides the loss")
      .one_of(names_of(all_metrics()))
      .does_not_affect_results();
  fields
      .section("early_stop", "end the run when a metric no longer improves",
               [&](Fields& stop) {
                 stop.add("metric", &stop_metric,
                          "metric (loss, top1, ema_loss, ...); default: no early stop");
                 stop.add("patience", &patience,
                          "evaluations in a row without improvement after which the run ends")
                     .at_least(1);
                 stop.add("min_delta", &min_delta, "an improvement must be larger than this").at_least(0);
               })
      .does_not_affect_results();
}

std::optional<EarlyStopSettings> ValidationSection::early_stop_settings() const {
  if (!stop_metric) return std::nullopt;
  return EarlyStopSettings{.metric = *stop_metric, .patience = patience, .min_delta = min_delta};
}

void LoggingSection::declare(Fields& fields) {
  fields.add("interval", &interval, "how often to write a line of metrics").at_least(1);
  fields
      .add("formats", &formats,
           "files to write besides metrics.jsonl: tensorboard (an event file), csv (metrics.csv), prometheus "
           "(metrics.prom, the last values)")
      .one_of({kTensorboard, kCsv, kPrometheus});
  fields.section(
      "mlflow", "an MLflow server that receives parameters, metrics and results", [&](Fields& mlflow) {
        mlflow.add("uri", &mlflow_uri, "address of the server, such as http://localhost:5000; default: none");
        mlflow.add("experiment", &mlflow_experiment,
                   "name of the experiment, which is created if the server does not have it");
      });
  fields
      .add("wandb", &wandb,
           "offline: at its end a run writes a directory for `wandb sync` (Weights & Biases); default: none")
      .one_of({"offline"});
}

}  // namespace trainer
