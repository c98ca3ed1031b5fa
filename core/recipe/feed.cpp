// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/feed.h"

#include <fmt/format.h>

namespace trainer {

Feed open_feed(const Recipe& recipe, const Job& job, Backend& backend, Split split,
               const std::filesystem::path& unreadable_list) {
  Feed feed;
  if (split == Split::val && !has_split(recipe.data, Split::val)) return feed;
  SourceRequest request = source_request(recipe, job.program, split);
  request.unreadable_list = unreadable_list.string();
  feed.source = open_source(recipe.data, request);
  Diagnostics diagnostics;
  TransformChain chain(recipe.data.transform_list(split), feed.source->sample_shape(), diagnostics);
  if (chain.output_shape() != recipe.model.input && diagnostics.ok()) {
    diagnostics.error(recipe.origin_of("model.input"),
                      fmt::format("the network takes samples of shape {}, the data gives {}",
                                  to_string(recipe.model.input), to_string(chain.output_shape())));
  }
  diagnostics.throw_if_any();
  const Loading loading{.workers = recipe.data.workers,
                        .prefetch = recipe.data.prefetch,
                        .kept = InputFeed::kept(backend),
                        .allocate = [&backend](int64_t bytes) { return backend.allocate_batch(bytes); }};
  const int64_t rows = recipe.training.micro_batch();
  const BatchForm form = batch_form(job.program);
  if (split == Split::val) {
    feed.pipeline = std::make_unique<DataPipeline>(
        BatchMaker(*feed.source, chain, EvaluationBatches{rows}, form), loading);
  } else {
    const TrainingOrder order(feed.source->size(), recipe.training.global_batch_size, recipe.data.drop_last);
    const TrainingBatches batches{.seed = static_cast<uint64_t>(recipe.run.seed),
                                  .order = order,
                                  .micro_batch = rows,
                                  .mix = recipe.data.mix};
    feed.pipeline = std::make_unique<DataPipeline>(BatchMaker(*feed.source, chain, batches, form), loading);
  }
  return feed;
}

}  // namespace trainer
