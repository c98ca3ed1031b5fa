// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/feed.h"

#include <fmt/format.h>

#include "core/engine/input_feed.h"

namespace trainer {
namespace {

/// The transforms of a split, which must make what the network takes of the source's samples.
TransformChain checked_chain(const Recipe& recipe, const DataSource& source, Split split) {
  Diagnostics diagnostics;
  TransformChain chain(recipe.data.transform_list(split), source.sample_shape(), diagnostics);
  if (chain.output_shape() != recipe.model.input && diagnostics.ok()) {
    diagnostics.error(recipe.origin_of("model.input"),
                      fmt::format("the network takes samples of shape {}, the data gives {}",
                                  to_string(recipe.model.input), to_string(chain.output_shape())));
  }
  diagnostics.throw_if_any();
  return chain;
}

Loading loading_of(const Recipe& recipe, const Plan& plan, Device& device) {
  return {.workers = recipe.data.workers,
          .prefetch = recipe.data.prefetch,
          .kept = InputFeed::kept(plan),
          .allocate = [&device](int64_t bytes) { return device.allocate_batch(bytes); }};
}

}  // namespace

std::unique_ptr<DataPipeline> open_pass(const Recipe& recipe, const Job& job, Device& device,
                                        const DataSource& source, const UnreadableHandler& unreadable) {
  const EvaluationBatches batches{.batch = recipe.training.micro_batch(), .unreadable = unreadable};
  return std::make_unique<DataPipeline>(
      BatchMaker(source, checked_chain(recipe, source, Split::val), batches, batch_form(job.program)),
      loading_of(recipe, job.plan, device));
}

Feed open_feed(const Recipe& recipe, const Job& job, Device& device, Split split,
               const std::filesystem::path& unreadable_list) {
  Feed feed;
  if (split == Split::val && !has_split(recipe.data, Split::val)) return feed;
  SourceRequest request = source_request(recipe, job.program, split);
  request.unreadable_list = unreadable_list.string();
  feed.source = open_source(recipe.data, request);
  if (split == Split::val) {
    feed.pipeline = open_pass(recipe, job, device, *feed.source, nullptr);
    return feed;
  }
  const TrainingOrder order(feed.source->size(), recipe.training.global_batch_size, recipe.data.drop_last);
  const TrainingBatches batches{.seed = static_cast<uint64_t>(recipe.run.seed),
                                .order = order,
                                .micro_batch = recipe.training.micro_batch(),
                                .mix = recipe.data.mix};
  feed.pipeline = std::make_unique<DataPipeline>(
      BatchMaker(*feed.source, checked_chain(recipe, *feed.source, split), batches, batch_form(job.program)),
      loading_of(recipe, job.plan, device));
  return feed;
}

}  // namespace trainer
