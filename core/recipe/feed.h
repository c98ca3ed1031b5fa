// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "core/data/pipeline.h"
#include "core/recipe/job.h"

namespace trainer {

/// The samples of one split with their pipeline; nothing for a validation split that the recipe leaves out.
struct Feed {
  std::unique_ptr<DataSource> source;
  std::unique_ptr<DataPipeline> pipeline;
};

/// Opens a split's files and starts to make batches. Their memory is one that the device copies from, or the
/// ring of `other` if they may share it. Unreadable samples are listed in `unreadable_list`. Throws Error:
/// exit 78 if the data does not suit the network, 65 if a file is bad.
Feed open_feed(const Job& job, Device& device, Split split, const std::filesystem::path& unreadable_list,
               const DataPipeline* other = nullptr);

/// Makes the batches of training from a source, which must outlive it.
BatchMaker training_batches(const Job& job, const DataSource& source);

/// A pass over samples that are given, in their order, once.
struct PassRequest {
  const DataSource& source;  ///< must outlive the pipeline
  int64_t first = 0;         ///< number of the first sample
  int64_t samples = source.size() - first;
  UnreadableHandler unreadable = nullptr;
  bool mirrored = false;  ///< each image, as the network reads it, is mirrored left to right
  RankShare share = {};   ///< of the batches
  bool shuffled = false;  ///< of a random order of all samples, which the run's seed determines
};

/// The pipeline of open_feed over these samples, as validation takes them.
std::unique_ptr<DataPipeline> open_pass(const Job& job, Device& device, const PassRequest& request);

}  // namespace trainer
