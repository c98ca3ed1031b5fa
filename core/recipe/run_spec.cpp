// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/run_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/step/forward.h"

namespace trainer {
namespace {

/// Nearest numbers of samples that the ranks can share.
std::string nearest_multiples(int64_t samples, int64_t ranks) {
  const int64_t below = samples / ranks * ranks, above = below + ranks;
  return below == 0 ? std::to_string(above) : fmt::format("{} or {}", below, above);
}

/// The divisors of a number from 2 on: "2 or 4".
std::string divisors_of(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t each = 2; each <= number; ++each) {
    if (number % each == 0) divisors.push_back(each);
  }
  return fmt::format("{}", fmt::join(divisors, " or "));
}

/// Of `ranks` with samples of their own, those that share a copy of the parameters.
int64_t shards_of(const Recipe& recipe, int64_t ranks) {
  const FlagOrCount& asked = recipe.parallelism.shard_parameters;
  if (!asked.flag) return 1;
  const int64_t shards = asked.count.value_or(ranks);
  if (ranks % shards == 0) return shards;
  fail_at(recipe.origin_of("parallelism.shard_parameters"),
          ranks == 1 ? fmt::format("{} ranks cannot share a copy of the parameters: there is one rank; set "
                                   "parallelism.data, or write true",
                                   shards)
                     : fmt::format("{} ranks cannot be divided into groups of {} that share a copy of the "
                                   "parameters; write {}",
                                   ranks, shards, divisors_of(ranks)));
}

/// Stages of a pipeline among the ranks.
int64_t stages_of(const Recipe& recipe, int64_t ranks) {
  const int64_t stages = recipe.parallelism.pipeline;
  if (ranks % stages == 0) return stages;
  fail_at(recipe.origin_of("parallelism.pipeline"),
          ranks == 1 ? fmt::format("{0} stages need as many ranks, and there is one; start a multiple of {0}",
                                   stages)
                     : fmt::format("{} ranks cannot be divided into {} stages; write {}, or start a multiple "
                                   "of {}",
                                   ranks, stages, divisors_of(ranks), stages));
}

Mesh mesh_of(const Recipe& recipe, int64_t all_ranks) {
  const int64_t tensor = recipe.parallelism.tensor, stages = stages_of(recipe, all_ranks);
  const int64_t ranks = all_ranks / stages;
  if (ranks % tensor != 0) {
    fail_at(
        recipe.origin_of("parallelism.tensor"),
        ranks == 1
            ? fmt::format("{0} ranks cannot share each operation: there is one rank; start a multiple of {0}",
                          tensor)
            : fmt::format("{} ranks cannot be divided into groups of {} that share each operation; "
                          "write {}, or start a multiple of {}",
                          ranks, tensor, divisors_of(ranks), tensor));
  }
  const int64_t shards = shards_of(recipe, ranks / tensor);
  return {.replicas = ranks / tensor / shards, .shards = shards, .tensor = tensor, .stages = stages};
}

constexpr int64_t kMostMicroBatches = 256;

/// Numbers of samples of a micro-batch with which the pipeline's schedule works, descending.
std::vector<int64_t> possible_micro_batches(const Recipe& recipe, int64_t samples) {
  const int64_t stages = recipe.parallelism.pipeline;
  std::vector<int64_t> possible;
  for (int64_t each = samples; each >= 1; --each) {
    const int64_t count = samples / each;
    const bool fits = samples % each == 0 && count >= stages && count <= kMostMicroBatches;
    if (fits && (recipe.parallelism.stages_of_rank() == 1 || count % stages == 0)) possible.push_back(each);
  }
  return possible;
}

/// Throws unless the micro-batches suffice for the stages of a pipeline.
void check_micro_batches(const Recipe& recipe, const BatchSplit& split) {
  const int64_t stages = recipe.parallelism.pipeline;
  const std::vector<int64_t> possible = possible_micro_batches(recipe, split.rank_batch());
  if (std::ranges::find(possible, split.micro_batch) != possible.end()) return;
  const bool is_interleaved = recipe.parallelism.stages_of_rank() > 1;
  const std::string wanted =
      is_interleaved ? fmt::format("an interleaved pipeline of {0} needs a multiple of {0}, up to {1}",
                                   stages, kMostMicroBatches)
                     : fmt::format("a pipeline of {} needs {} to {}", stages, stages, kMostMicroBatches);
  const auto below = std::ranges::find_if(possible, [&](int64_t each) { return each < split.micro_batch; });
  std::string remedy;
  if (below != possible.begin()) remedy = std::to_string(*std::prev(below));
  if (below != possible.end()) remedy += fmt::format("{}{}", remedy.empty() ? "" : " or ", *below);
  fail_at(recipe.origin_of(recipe.training.micro_batch_size ? "training.micro_batch_size"
                                                            : "training.global_batch_size"),
          fmt::format("{} samples of a rank in micro-batches of {} are {}, and {}; {}", split.rank_batch(),
                      split.micro_batch, split.micro_batches(), wanted,
                      remedy.empty() ? std::string("choose another training.global_batch_size")
                                     : fmt::format("write training.micro_batch_size {}", remedy)));
}

/// The rank's share of the samples.
RankShare share_of(const Mesh& mesh, int64_t rank) {
  return {.rank = mesh.coordinate(Axis::data, rank), .ranks = mesh.size(Axis::data)};
}

/// What keeps ranks from having unequal numbers of micro-batches: they exchange something in each of them. ""
/// if nothing does.
std::string reason_for_even(const Recipe& recipe) {
  const ParallelismSection& parallelism = recipe.parallelism;
  if (parallelism.sync_batch_norm) return "parallelism.sync_batch_norm";
  if (parallelism.shard_parameters.flag) return "parallelism.shard_parameters";
  return parallelism.pipeline > 1 ? "parallelism.pipeline" : "";
}

/// Of micro-batches whose size the recipe has.
void check_given(const Recipe& recipe, const BatchSplit& split) {
  const int64_t ranks = split.share.ranks, all = split.global_batch / split.micro_batch;
  const auto refuse = [&](const std::string& problem) {
    fail_at(recipe.origin_of("training.micro_batch_size"), problem);
  };
  if (all < ranks) {
    refuse(
        fmt::format("{} ranks need a micro-batch each, but global_batch_size {} has {} of {} samples; lower "
                    "it, or start fewer ranks",
                    ranks, split.global_batch, all, split.micro_batch));
  }
  const std::string reason = reason_for_even(recipe);
  if (split.is_even() || reason.empty()) return;
  refuse(
      fmt::format("{} ranks with micro-batches of {} cannot share global_batch_size {} evenly, as {} needs",
                  ranks, split.micro_batch, split.global_batch, reason));
}

/// `has_stages`: the rank is one of parallelism.pipeline.
BatchSplit split_of(const Recipe& recipe, RankShare share, bool has_stages) {
  const int64_t all = recipe.training.global_batch_size;
  const std::optional<AutoCount>& given = recipe.training.micro_batch_size;
  BatchSplit split{.global_batch = all, .micro_batch = all / share.ranks, .share = share};
  if (given && given->count) {
    split.micro_batch = *given->count;
    check_given(recipe, split);
  } else if (all % share.ranks != 0) {
    fail_at(recipe.origin_of("training.global_batch_size"),
            fmt::format("{} samples cannot be shared by {} ranks evenly; write {}, or set "
                        "training.micro_batch_size: some ranks may have a micro-batch more than others",
                        all, share.ranks, nearest_multiples(all, share.ranks)));
  } else if (given && has_stages) {
    const std::vector<int64_t> possible = possible_micro_batches(recipe, split.rank_batch());
    if (!possible.empty()) split.micro_batch = possible.front();
  }
  if (has_stages) check_micro_batches(recipe, split);
  return split;
}

bool leaves_micro_batch_open(const Recipe& recipe) {
  const std::optional<AutoCount>& given = recipe.training.micro_batch_size;
  return given && !given->count;
}

/// For this number of samples.
Shape output_of(const Recipe& recipe, int64_t samples) try {
  return output_shape(recipe.model, samples);
} catch (const TooLarge& problem) {
  fail_at(recipe.origin_of("model.input"), problem.what());
}

}  // namespace

RunSpec::RunSpec(std::shared_ptr<const Recipe> recipe)
    : recipe_(std::move(recipe)),
      batch_(split_of(*recipe_, RankShare{}, false)),
      output_(output_of(*recipe_, batch_.micro_batch)),
      searches_micro_batch_(leaves_micro_batch_open(*recipe_)) {}

RunSpec::RunSpec(std::shared_ptr<const Recipe> recipe, RankShare rank, int64_t ranks_on_host)
    : recipe_(std::move(recipe)),
      mesh_(mesh_of(*recipe_, rank.ranks)),
      rank_(rank.rank),
      batch_(split_of(*recipe_, share_of(mesh_, rank_), mesh_.stages > 1)),
      output_(output_of(*recipe_, batch_.micro_batch)),
      ranks_on_host_(ranks_on_host),
      searches_micro_batch_(leaves_micro_batch_open(*recipe_)) {
  if (mesh_.stages > 1) check_stages(recipe_->model, pipeline());
}

RunSpec RunSpec::with_micro_batch(int64_t samples) const {
  RunSpec other = *this;
  other.batch_.micro_batch = other.output_[0] = samples;
  other.searches_micro_batch_ = false;
  return other;
}

RunSpec RunSpec::in_stage(int64_t stage) const {
  RunSpec other = *this;
  other.rank_ = mesh_.peer(Axis::pipeline, rank_, stage);
  return other;
}

BatchSplit RunSpec::loaded_batch() const {
  BatchSplit loaded = batch_;
  if (mesh_.stages > 1) loaded.micro_batch = batch_.rank_batch();
  return loaded;
}

PipelineSchedule RunSpec::schedule() const {
  const ParallelismSection& asked = recipe_->parallelism;
  return {.kind = asked.parsed_schedule(),
          .ranks = mesh_.stages,
          .chunks = asked.stages_of_rank(),
          .micro_batches = batch_.micro_batches()};
}

PipelineSpec RunSpec::pipeline() const {
  return {.schedule = schedule(),
          .cuts = recipe_->parallelism.cuts,
          .origin = recipe_->origin_of("parallelism.pipeline"),
          .origin_of_cuts = recipe_->origin_of("parallelism.cuts"),
          .origin_of_chunks = recipe_->origin_of("parallelism.schedule.chunks")};
}

std::vector<int64_t> RunSpec::possible_micro_batches() const {
  // Those of all ranks, if some have a micro-batch more than others.
  const int64_t samples = batch_.is_even() ? batch_.rank_batch() : batch_.micro_batch;
  if (mesh_.stages > 1) return trainer::possible_micro_batches(*recipe_, samples);
  std::vector<int64_t> divisors;
  for (int64_t each = samples; each >= 1; --each) {
    if (samples % each == 0) divisors.push_back(each);
  }
  return divisors;
}

int64_t RunSpec::tokens_of_batch() const {
  const Network& network = recipe_->model;
  return network.kind() == InputKind::tokens ? network.input[0] * batch_.global_batch : 0;
}

}  // namespace trainer
