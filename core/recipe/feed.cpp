// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/feed.h"

namespace trainer {
namespace {

/// Batches of TrainingBatches or EvaluationBatches over a source, whose split's transforms are `split`'s.
template <class Batches>
std::unique_ptr<DataPipeline> open_batches(const Recipe& recipe, const Job& job, Device& device,
                                           const DataSource& source, const Batches& batches,
                                           const DataPipeline* other) {
  constexpr bool kTrains = std::is_same_v<Batches, TrainingBatches>;
  RowRequest request{.section = recipe.data,
                     .split = kTrains ? Split::train : Split::val,
                     .network_shape = recipe.model.input,
                     .network_origin = recipe.origin_of("model.input"),
                     .inputs = batch_contents(recipe, job.program)};
  if constexpr (kTrains) request.training = &batches;
  Loading loading = loading_of(recipe, job.plan);
  loading.allocate = [&device](int64_t bytes) { return device.allocate_batch(bytes); };
  if (other != nullptr && shares_ring(job.plan)) loading.ring = other->ring();
  return std::make_unique<DataPipeline>(BatchMaker(source.rows(request), request.inputs, batches), loading);
}

EvaluationBatches one_pass(const Recipe& recipe, const DataSource& source,
                           const UnreadableHandler& unreadable) {
  return {.samples = source.size(),
          .batch = recipe.training.micro_batch(),
          .unreadable = unreadable,
          .share = recipe.training.share};
}

}  // namespace

std::unique_ptr<DataPipeline> open_pass(const Recipe& recipe, const Job& job, Device& device,
                                        const DataSource& source, const UnreadableHandler& unreadable) {
  return open_batches(recipe, job, device, source, one_pass(recipe, source, unreadable), nullptr);
}

Feed open_feed(const Recipe& recipe, const Job& job, Device& device, Split split,
               const std::filesystem::path& unreadable_list, const DataPipeline* other) {
  Feed feed;
  if (split == Split::val && !has_split(recipe.data, Split::val)) return feed;
  SourceRequest request = source_request(recipe, job.program, split);
  request.unreadable_list = unreadable_list.string();
  request.shares_budget = recipe.training.share.ranks > 1;
  feed.source = open_source(recipe.data, request);
  if (split == Split::val) {
    feed.pipeline =
        open_batches(recipe, job, device, *feed.source, one_pass(recipe, *feed.source, nullptr), other);
    return feed;
  }
  const TrainingBatches batches{
      .seed = static_cast<uint64_t>(recipe.run.seed),
      .order = TrainingOrder(feed.source->size(), recipe.training.global_batch_size, recipe.data.drop_last),
      .micro_batch = recipe.training.micro_batch(),
      .share = recipe.training.share,
      .takes_turns = recipe.parallelism.sync_batch_norm};
  feed.pipeline = open_batches(recipe, job, device, *feed.source, batches, other);
  return feed;
}

}  // namespace trainer
