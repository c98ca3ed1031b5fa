// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/run_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

Mesh mesh_of(const Recipe& recipe, int64_t ranks) {
  const int64_t tensor = recipe.parallelism.tensor;
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
  return {.replicas = ranks / tensor / shards, .shards = shards, .tensor = tensor};
}

/// The rank's share of the samples.
RankShare share_of(const Mesh& mesh, int64_t rank) {
  return {.rank = mesh.coordinate(Axis::data, rank), .ranks = mesh.size(Axis::data)};
}

BatchSplit split_of(const Recipe& recipe, RankShare share) {
  const int64_t all = recipe.training.global_batch_size;
  if (all % share.ranks != 0) {
    fail_at(recipe.origin_of("training.global_batch_size"),
            fmt::format("{} samples cannot be shared by {} ranks evenly; write {}", all, share.ranks,
                        nearest_multiples(all, share.ranks)));
  }
  BatchSplit split{.global_batch = all, .micro_batch = all / share.ranks, .share = share};
  const std::optional<AutoCount>& given = recipe.training.micro_batch_size;
  if (!given || !given->count) return split;
  split.micro_batch = *given->count;
  if (split.rank_batch() % split.micro_batch != 0) {
    fail_at(
        recipe.origin_of("training.micro_batch_size"),
        fmt::format("{} ranks with micro-batches of {} cannot share global_batch_size {} evenly; each has {} "
                    "samples of a step",
                    share.ranks, split.micro_batch, all, split.rank_batch()));
  }
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
      batch_(split_of(*recipe_, RankShare{})),
      output_(output_of(*recipe_, batch_.micro_batch)),
      searches_micro_batch_(leaves_micro_batch_open(*recipe_)) {}

RunSpec::RunSpec(std::shared_ptr<const Recipe> recipe, RankShare rank, int64_t ranks_on_host)
    : recipe_(std::move(recipe)),
      mesh_(mesh_of(*recipe_, rank.ranks)),
      rank_(rank.rank),
      batch_(split_of(*recipe_, share_of(mesh_, rank_))),
      output_(output_of(*recipe_, batch_.micro_batch)),
      ranks_on_host_(ranks_on_host),
      searches_micro_batch_(leaves_micro_batch_open(*recipe_)) {}

RunSpec RunSpec::with_micro_batch(int64_t samples) const {
  RunSpec other = *this;
  other.batch_.micro_batch = other.output_[0] = samples;
  other.searches_micro_batch_ = false;
  return other;
}

int64_t RunSpec::tokens_of_batch() const {
  const Network& network = recipe_->model;
  return network.kind() == InputKind::tokens ? network.input[0] * batch_.global_batch : 0;
}

}  // namespace trainer
