// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/prediction_pass.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/trainer/rank_output.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/printable.h"
#include "core/data/tables/source.h"
#include "core/recipe/feed.h"

namespace trainer {
namespace {

PredictionRequest request_of(const Task& task, const Job& job, const PredictSamples& samples,
                             const Arguments& arguments) {
  PredictionRequest request{.all = arguments.all, .class_names = samples.class_names};
  const Shape& output = job.spec.output();
  request.output = Shape(output.begin() + 1, output.end());
  constexpr size_t kTableClasses = 3;
  if (const auto* table = dynamic_cast<const TableSource*>(samples.source.get())) {
    for (const auto& [name, mean, deviation] : table->how().targets)
      request.targets.push_back({name, mean, deviation});
  }
  if (arguments.top > 0) request.top = static_cast<size_t>(arguments.top);
  if (request.top || request.all || task.has_label_sets()) return request;
  if (arguments.predict.format == "csv" && task.judges()) request.top = 1;  // one class for each image
  if (arguments.predict.format == "table") request.top = kTableClasses;
  return request;
}

/// The fields of any sample, of an output that is zero.
std::vector<PredictedField> fields_of(const Task& task, PredictionRequest request, const DataSource* source,
                                      bool has_images) {
  const std::vector<float> zeros(static_cast<size_t>(numel(request.output)));
  request.input = zeros;
  std::vector<PredictedField> fields = task.predict(zeros, request);
  if (const auto* table = dynamic_cast<const TableSource*>(source); table != nullptr && table->size() > 0) {
    auto at = fields.begin();
    for (const auto& [name, text] : table->names(0)) at = fields.insert(at, {name, text}) + 1;
  }
  if (has_images && task.drawing() == Drawing::image) fields.push_back({"image", ""});
  if (has_images && task.drawing() == Drawing::masks)
    fields.insert(fields.end(), {{"mask", ""}, {"overlay", ""}});
  return fields;
}

/// The longest name of the first samples, for a table.
size_t longest_name(const DataSource& source) {
  constexpr int64_t kLooked = 1000;
  size_t longest = 0;
  for (int64_t i = 0; i < std::min(kLooked, source.size()); ++i)
    longest = std::max(longest, one_line(source.sample_file(i)).size());
  return longest;
}

std::unique_ptr<PredictionFormat> format_of(const Task& task, const PredictSamples& samples,
                                            const PredictionRequest& request, const Arguments& arguments) {
  const std::string& name = arguments.predict.format;
  if (name != "csv" && name != "table") return json_lines_format();
  const auto classes = static_cast<size_t>(request.output[0]);
  PredictionColumns columns{
      .class_names = samples.class_names,
      .has_files = samples.arriving != nullptr ||
                   (samples.source->size() > 0 && !samples.source->sample_file(0).empty()),
      .has_labels = samples.has_labels(),
      .has_label_sets = task.has_label_sets(),
      .fields = fields_of(task, request, samples.source.get(), !arguments.predict.images.empty()),
      .top = std::min(request.top.value_or(classes), classes),
      .classes = classes};
  if (name == "csv") return csv_format(std::move(columns));
  constexpr size_t kWidth = 100;  // outside of a terminal
  columns.width = arguments.out.empty() ? output_width().value_or(kWidth) : kWidth;
  columns.name_width = samples.arriving != nullptr ? kWidth : longest_name(*samples.source);
  return table_format(std::move(columns));
}

void send(const ByteSink& sink, const std::string& text) {
  if (!text.empty()) sink(std::as_bytes(std::span(text)));
}

}  // namespace

PredictionPass::PredictionPass(TrainedNetwork& network, PredictSamples& samples, const Arguments& arguments,
                               StopSignals& signals, const Membership& membership)
    : network_(network),
      task_(task_of(network.job().spec)),
      samples_(samples),
      arguments_(arguments),
      signals_(signals),
      membership_(membership),
      request_(request_of(task_, network.job(), samples, arguments)),
      format_(format_of(task_, samples, request_, arguments)),
      tiles_(samples.class_names),
      reader_(network.job(), samples, request_, unreadable_) {
  const std::string& folder = arguments.predict.images;
  if (!folder.empty() && task_.drawing() == Drawing::image)
    images_.emplace(folder, *samples.source, arguments.predict.part.parts > 1 || membership.has_peers());
  if (!folder.empty() && task_.drawing() == Drawing::masks)
    masks_.emplace(folder, network.job().spec, *samples.source, arguments.inputs);
}

void PredictionPass::begin() {
  if (prediction_) {
    pipeline_->restart();
    if (mirrored_) mirrored_pipeline_->restart();
    return;
  }
  pipeline_ = open(false);
  prediction_.emplace(network_.executable(), *pipeline_);
  if (arguments_.predict.tta != "flip") return;
  mirrored_pipeline_ = open(true);
  mirrored_.emplace(network_.executable(), *mirrored_pipeline_);
}

std::optional<std::string> PredictionPass::next_lines() {
  const auto asked = [&] { return signals_.asked(); };
  const Batch* batch = prediction_->next(asked);
  if (batch == nullptr) return std::nullopt;
  if (mirrored_ && mirrored_->next(asked) == nullptr) {
    signals_.throw_if_asked();
    return std::nullopt;
  }
  const int64_t rows = std::min(batch->real, samples_.part.count - batch->step * pipeline_->rows());
  std::string text;
  for (int64_t row = 0; row < rows; ++row) text += line_of(*batch, row, output_of(row));
  return text;
}

void PredictionPass::run(const ByteSink& sink) {
  begin();
  signals_.watch_loop();
  const bool has_rows = !arguments_.predict.errors_only;
  if (has_rows && membership_.is_rank_0()) send(sink, format_->head());
  while (const std::optional<std::string> text = next_lines()) send(sink, *text);
  // Thrown here, so that no partial file remains.
  if (prediction_->remaining() > 0) signals_.throw_if_asked();
  if (!has_rows) send(sink, worst_.count() > 0 ? format_->head() + worst_.text() : "");
}

void PredictionPass::answer(ArrivingLines& paths, const ByteSink& sink) {
  const int64_t rows = network_.job().spec.batch().micro_batch;
  signals_.watch_loop();
  send(sink, format_->head());
  while (true) {
    std::vector<std::string> come = paths.next(static_cast<size_t>(rows), [&] { return signals_.asked(); });
    signals_.throw_if_asked();
    if (come.empty()) return;
    samples_.take(std::move(come), rows);
    begin();
    send(sink, next_lines().value_or(""));
  }
}

Gallery PredictionPass::gallery(const std::string& weights) {
  return {.title = "Predictions of " + network_.job().spec.recipe().run.name,
          .weights = weights,
          .tiles = tiles_.take(),
          .samples = samples_.count(),
          .unreadable = unreadable_.count() + reader_.not_finite(),
          .wrong = samples_.has_labels() ? std::optional(wrong_) : std::nullopt};
}

int PredictionPass::conclude() const {
  if (worst_.left_out() > 0)
    print_warning(fmt::format("{} wrong predictions, less certain ones, are left out", worst_.left_out()));
  if (arguments_.predict.errors_only)
    print_remark(fmt::format("{} of {} samples are predicted wrongly", wrong_, samples_.count()));
  const int64_t not_finite = sum_over_ranks(membership_, reader_.not_finite()),
                unreadable = sum_over_ranks(membership_, unreadable_.count()),
                all = sum_over_ranks(membership_, samples_.count());
  if (not_finite > 0) return failed(ExitCode::internal, not_finite, all, "have no finite output");
  if (unreadable > 0) return failed(ExitCode::data, unreadable, all, "could not be read");
  return 0;
}

std::unique_ptr<DataPipeline> PredictionPass::open(bool mirrored) {
  const bool is_stream = samples_.arriving != nullptr;
  const auto on_unreadable = [this, mirrored, is_stream](int64_t index, const UnreadableSample& found) {
    const bool is_padding = is_stream && index >= samples_.part.count;
    if (!mirrored && !is_padding) unreadable_.add(index, found.reason);
  };
  return open_pass(network_.job(), network_.device(),
                   {.source = *samples_.source,
                    .first = samples_.part.first,
                    .samples = is_stream ? samples_.source->size() : samples_.part.count,
                    .unreadable = on_unreadable,
                    .mirrored = mirrored});
}

std::span<const float> PredictionPass::output_of(int64_t row) {
  const std::span<const float> output = prediction_->output(row);
  if (!mirrored_) return output;
  averaged_.assign(output.begin(), output.end());
  task_.average(averaged_, mirrored_->output(row), request_.output);
  return averaged_;
}

std::string PredictionPass::line_of(const Batch& batch, int64_t row, std::span<const float> output) {
  PredictedSample sample = reader_.read(batch, row, output);
  if (!sample.error.empty()) {
    const std::string name = sample.file.empty() ? fmt::format("sample {}", sample.number) : sample.file;
    print_warning(fmt::format("{}: {}", one_line(name), sample.error));
  } else {
    keep_images(sample, output);
  }
  wrong_ += sample.is_wrong() ? 1 : 0;
  if (!arguments_.predict.errors_only) return format_->line(sample);
  if (sample.is_wrong()) worst_.add(sample, format_->line(sample));
  return "";
}

void PredictionPass::keep_images(PredictedSample& sample, std::span<const float> output) {
  const bool has_page = !arguments_.predict.gallery.empty();
  std::optional<PredictedImage> drawn;
  if ((images_ || has_page) && task_.drawing() == Drawing::image)
    drawn = task_.draw(output, request_.output, reader_.numbers());
  if (drawn && images_) sample.fields.push_back({"image", images_->write(sample.number, *drawn)});
  if (masks_) masks_->write(sample, output);
  if (has_page) tiles_.add(sample, reader_, drawn);
}

int PredictionPass::failed(ExitCode code, int64_t count, int64_t of, const std::string& what) const {
  // A launcher ends the others once one has failed.
  if (!membership_.is_rank_0()) return 0;
  print_error(fmt::format("{} of {} samples {}", count, of, what));
  return static_cast<int>(code);
}

}  // namespace trainer
