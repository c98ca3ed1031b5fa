// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <span>

#include "apps/trainer/commands.h"
#include "apps/trainer/inputs.h"
#include "apps/trainer/predict_samples.h"
#include "apps/trainer/prediction_pass.h"
#include "apps/trainer/rank_output.h"
#include "apps/trainer/standard_streams.h"
#include "apps/trainer/trained_network.h"
#include "apps/trainer/trained_recipe.h"
#include "core/base/printable.h"
#include "core/host/arriving_lines.h"
#include "core/host/stop.h"
#include "core/report/gallery.h"
#include "core/session/membership.h"

namespace trainer {
namespace {

/// The reader of the standard output has gone.
struct ReaderGone {};

void refuse(const std::string& why) {
  throw Error(ExitCode::usage, why);
}

/// Whether two paths, which may not exist yet, lead to one file.
bool name_one_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const auto target = [&](const std::string& path) {
    return fs::weakly_canonical(fs::absolute(path), failed);
  };
  return a == b || (target(a) == target(b) && !failed);
}

/// Refuses options that contradict each other, or that have no meaning for the network's task.
void check_options(const Task& task, const Arguments& arguments) {
  const PredictArguments& wanted = arguments.predict;
  if (!wanted.gallery.empty() && !arguments.out.empty() && name_one_file(wanted.gallery, arguments.out))
    refuse("--output and --gallery name one file, for lines and for a page; name two");
  if (wanted.tta == "flip" && !task.averages_mirrored())
    refuse(fmt::format("--tta flip averages probabilities, and {} has none; leave it out", task.name()));
  if (!wanted.images.empty() && task.drawing() == Drawing::none)
    refuse(fmt::format(
        "--images writes the reconstructions of an autoencoder, or masks of a class for each pixel, "
        "and {} has neither; use --gallery to see the samples",
        task.name()));
  if (wanted.errors_only && !task.judges())
    refuse(
        fmt::format("--errors-only needs labels of whole images, and {} has none; trainer eval measures "
                    "its errors",
                    task.name()));
}

/// Of the rows of a table.
void check_table_options(const PredictArguments& wanted) {
  if (wanted.reads_paths) refuse("- reads paths of images, and the network reads tables; name their files");
  if (!wanted.gallery.empty()) refuse("--gallery shows images, and the network reads tables; leave it out");
  if (!wanted.tta.empty()) refuse("--tta mirrors images, and the network reads tables; leave it out");
}

void require_labels(const PredictSamples& samples) {
  if (samples.has_labels()) return;
  const std::string known = samples.class_names.empty()
                                ? "the classes have no names that folders could have"
                                : fmt::format("{} is in no folder named by a class ({})", samples.unlabelled,
                                              fmt::join(samples.class_names, ", "));
  refuse(
      fmt::format("--errors-only needs labels, and {}; name images in folders of their classes, or none for "
                  "the recipe's labels (--split val)",
                  one_line(known)));
}

void write_to_output(std::span<const std::byte> bytes) {
  if (!write_at_once({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) throw ReaderGone{};
}

/// The output file that the command line names. Throws Error if the command reads that file.
std::optional<OutputFile> open_output(const std::string& path, const Recipe& recipe, const DataSource& source,
                                      const TrainedFiles& trained) {
  if (path.empty()) return std::nullopt;
  std::vector<std::filesystem::path> inputs = input_files(recipe, source, path);
  inputs.insert(inputs.end(), {trained.model, trained.averages});
  return OutputFile(path, inputs);
}

/// Parts of a list are computed in the batches of the whole list, so that together they give the same bits.
BatchRows rows_of(const PredictSamples& samples, int64_t wanted) {
  if (wanted > 0) return {.exactly = wanted};
  if (samples.arriving != nullptr) return {};
  return {.at_most = samples.source->size()};
}

/// Options for which all samples must be in one process.
void require_one_process_for(const PredictArguments& wanted) {
  if (!wanted.gallery.empty()) require_one_process("--gallery");
  if (wanted.errors_only) require_one_process("--errors-only");
  if (wanted.reads_paths) require_one_process("the prediction of paths that come (-)");
  if (wanted.part.parts > 1) require_one_process("--part");
}

/// Each rank predicts a part of the samples.
int predict(const std::shared_ptr<const Recipe>& named, const Membership& membership,
            const RankIdentity& identity, const Arguments& arguments, StopSignals& signals) {
  const Task& task = task_of(named);
  const TrainedRecipe trained = with_weights(named, arguments);
  PredictSamples samples = open_samples(trained, task, arguments);
  if (membership.has_peers()) {
    samples.part = InputPart{.number = identity.rank + 1, .parts = identity.ranks}.of(samples.source->size());
    membership.require_same_samples(*samples.source, arguments.split);
  }
  if (arguments.predict.errors_only) require_labels(samples);
  const RunSpec spec(trained.recipe, {}, identity.local_ranks);
  TrainedNetwork network(spec, trained.files, Purpose::predict, rows_of(samples, arguments.predict.batch),
                         nullptr, identity.local_rank);
  const auto open = [&](const std::string& path) {
    return open_output(path, *trained.recipe, *samples.source, network.files());
  };
  const std::optional<OutputFile> output = open(arguments.out), page = open(arguments.predict.gallery);
  PredictionPass pass(network, samples, arguments, signals, membership);
  const auto run = [&](const ByteSink& sink) {
    write_in_order(membership, sink, [&](const ByteSink& own) { pass.run(own); });
  };
  // A gallery takes the place of lines that nobody asked for.
  const bool is_silent = page && !output && !arguments.predict.has_format;
  try {
    if (samples.arriving != nullptr) {
      ArrivingLines paths(STDIN_FILENO);
      pass.answer(paths, write_to_output);
    } else if (is_silent) {
      pass.run([](std::span<const std::byte>) {});
    } else if (!output || output->is_standard_output() || !membership.is_rank_0()) {
      run(write_to_output);
    } else {
      output->write(run);
    }
  } catch (const ReaderGone&) {
    if (membership.has_peers())
      throw Error(ExitCode::io, "the reader of the standard output has gone, and all ranks end");
    return 0;
  }
  if (page) {
    const std::string html = gallery_page(pass.gallery(network.files().model.string()));
    page->write([&](const ByteSink& sink) { sink(std::as_bytes(std::span(html))); });
    if (is_silent) print_note(*page, fmt::format("wrote {}", one_line(arguments.predict.gallery)));
  }
  return pass.conclude();
}

}  // namespace

int predict_command(const Arguments& arguments) {
  StopSignals signals(StopSignals::kPass);
  const std::shared_ptr<const Recipe> named = named_recipe(arguments);
  check_prediction(named);
  check_options(task_of(named), arguments);
  if (is_of_table(named->model.kind())) {
    check_table_options(arguments.predict);
  } else if (!arguments.predict.id.empty()) {
    refuse("--id names a column, and the network reads no table");
  } else if (!arguments.inputs.empty()) {
    check_channels(*named);
  }
  require_one_process_for(arguments.predict);
  const RankIdentity identity = launched_as();
  const Membership membership(named, identity, false);
  return run_as_rank(membership, [&] { return predict(named, membership, identity, arguments, signals); });
}

}  // namespace trainer
