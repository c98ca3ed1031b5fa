// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/trainer/mask_images.h"
#include "apps/trainer/predict_samples.h"
#include "apps/trainer/predicted_sample.h"
#include "apps/trainer/prediction_format.h"
#include "apps/trainer/prediction_gallery.h"
#include "apps/trainer/prediction_images.h"
#include "apps/trainer/trained_network.h"
#include "core/data/pipeline.h"
#include "core/host/arriving_lines.h"
#include "core/host/stop.h"
#include "core/session/membership.h"
#include "core/storage/atomic_file.h"
#include "core/train/prediction.h"

namespace trainer {

/// Lines by the certainty of their wrong predictions. Keeps the most certain ones alone, as memory is
/// bounded.
class WorstLines {
 public:
  void add(const PredictedSample& sample, std::string line) {
    ++count_;
    lines_.emplace(Rank{sample.judgement->certainty, -sample.number}, std::move(line));
    if (lines_.size() > kMost) lines_.erase(lines_.begin());
  }
  std::string text() const {
    std::string all;
    std::for_each(lines_.rbegin(), lines_.rend(), [&](const auto& line) { all += line.second; });
    return all;
  }
  int64_t count() const { return count_; }
  int64_t left_out() const { return count_ - static_cast<int64_t>(lines_.size()); }

 private:
  static constexpr size_t kMost = 100000;
  using Rank = std::pair<double, int64_t>;
  std::map<Rank, std::string> lines_;
  int64_t count_ = 0;
};

/// One pass of a network over samples: their lines, and what else the command line asks for.
class PredictionPass {
 public:
  /// `membership`: ranks that share the samples, each a part of them.
  PredictionPass(TrainedNetwork& network, PredictSamples& samples, const Arguments& arguments,
                 StopSignals& signals, const Membership& membership);

  /// Predicts all samples, and gives the sink the lines. Throws once a signal has come.
  void run(const ByteSink& sink);
  /// The same of samples whose paths come: each batch of them before the next is awaited.
  void answer(ArrivingLines& paths, const ByteSink& sink);
  /// Of the samples of run(), once. `weights`: their file.
  Gallery gallery(const std::string& weights);
  /// Prints what went wrong on any rank; returns the exit code.
  int conclude() const;

 private:
  std::unique_ptr<DataPipeline> open(bool mirrored);
  /// Starts to make the batches of the samples.
  void begin();
  /// The lines of the next batch; nothing after the last one, and once a signal has come.
  std::optional<std::string> next_lines();
  std::span<const float> output_of(int64_t row);
  std::string line_of(const Batch& batch, int64_t row, std::span<const float> output);
  void keep_images(PredictedSample& sample, std::span<const float> output);
  int failed(ExitCode code, int64_t count, int64_t of, const std::string& what) const;

  TrainedNetwork& network_;
  const Task& task_;
  PredictSamples& samples_;
  const Arguments& arguments_;
  StopSignals& signals_;
  const Membership& membership_;
  Unreadable unreadable_;
  PredictionRequest request_;
  std::unique_ptr<PredictionFormat> format_;
  GalleryTiles tiles_;
  WorstLines worst_;
  int64_t wrong_ = 0;
  std::optional<PredictionImages> images_;
  std::optional<MaskImages> masks_;
  std::vector<float> averaged_;
  SampleReader reader_;
  std::unique_ptr<DataPipeline> pipeline_, mirrored_pipeline_;  // their threads end before the members above
  std::optional<Prediction> prediction_, mirrored_;
};

}  // namespace trainer
