// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/feed.h"

#include <utility>

#include "core/data/images/mirrored_rows.h"
#include "core/data/shuffled_rows.h"

namespace trainer {
namespace {

/// Batches of TrainingBatches or EvaluationBatches over a source with the transforms of `split`.
template <class Batches>
BatchMaker maker_of(const Job& job, const DataSource& source, const Batches& batches, bool mirrored = false,
                    bool shuffled = false) {
  const Recipe& recipe = job.spec.recipe();
  constexpr bool kTrains = std::is_same_v<Batches, TrainingBatches>;
  RowRequest request{.section = recipe.data,
                     .split = kTrains ? Split::train : Split::val,
                     .network_shape = recipe.model.input,
                     .network_origin = recipe.origin_of("model.input"),
                     .inputs = batch_contents(job.spec, job.program)};
  if constexpr (kTrains) request.training = &batches;
  std::unique_ptr<RowReader> rows = source.rows(request);
  if (mirrored) rows = mirror_rows(std::move(rows), request.inputs);
  if (shuffled) rows = shuffle_rows(std::move(rows), job.spec.seed(), source.size());
  return BatchMaker(std::move(rows), request.inputs, batches);
}

std::unique_ptr<DataPipeline> open_batches(const Job& job, Device& device, BatchMaker maker,
                                           const DataPipeline* other) {
  Loading loading = loading_of(job);
  loading.allocate = [&device](int64_t bytes) { return device.allocate_batch(bytes); };
  if (other != nullptr && shares_ring(job.plan)) loading.ring = other->ring();
  return std::make_unique<DataPipeline>(std::move(maker), loading);
}

std::shared_ptr<const SampleDraw> draw_of(const DataSource& source) {
  const std::span<const double> weights = source.sample_weights();
  return weights.empty() ? nullptr : std::make_shared<const SampleDraw>(weights);
}

EvaluationBatches one_pass(int64_t rows, const PassRequest& request) {
  return {.samples = request.samples,
          .batch = rows,
          .unreadable = request.unreadable,
          .share = request.share,
          .first = request.first};
}

}  // namespace

BatchMaker training_batches(const Job& job, const DataSource& source) {
  const Recipe& recipe = job.spec.recipe();
  const BatchSplit batch = job.spec.loaded_batch();
  const TrainingBatches batches{
      .seed = job.spec.seed(),
      .order = TrainingOrder(source.size(), batch.global_batch, recipe.data.drop_last, draw_of(source),
                             recipe.data.shuffle->blocks()),
      .micro_batch = batch.micro_batch,
      .share = batch.share,
      .turn = recipe.parallelism.sync_batch_norm ? job.spec.batch().micro_batch : 0};
  return maker_of(job, source, batches);
}

std::unique_ptr<DataPipeline> open_pass(const Job& job, Device& device, const PassRequest& request) {
  const EvaluationBatches batches = one_pass(job.spec.loaded_batch().micro_batch, request);
  return open_batches(job, device, maker_of(job, request.source, batches, request.mirrored, request.shuffled),
                      nullptr);
}

Feed open_feed(const Job& job, Device& device, Split split, const std::filesystem::path& unreadable_list,
               const DataPipeline* other) {
  const Recipe& recipe = job.spec.recipe();
  Feed feed;
  if (split == Split::val && !has_split(recipe.data, Split::val)) return feed;
  SourceRequest request = source_request(job.spec, split);
  request.unreadable_list = unreadable_list.string();
  feed.source = open_source(recipe.data, request);
  const BatchSplit batch = job.spec.loaded_batch();
  BatchMaker maker =
      split == Split::train
          ? training_batches(job, *feed.source)
          : maker_of(job, *feed.source,
                     one_pass(batch.micro_batch, {.source = *feed.source, .share = batch.share}));
  feed.pipeline = open_batches(job, device, std::move(maker), other);
  return feed;
}

}  // namespace trainer
