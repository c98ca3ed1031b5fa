// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "apps/trainer/commands.h"
#include "apps/trainer/inputs.h"
#include "apps/trainer/shard_paths.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/printable.h"
#include "core/data/images/packed.h"
#include "core/data/images/record.h"
#include "core/data/images/webdataset_writer.h"
#include "core/host/limits.h"
#include "core/host/stop.h"
#include "core/recipe/job.h"
#include "core/storage/output_file.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWebDataset = "webdataset";

/// Throws Error (exit 78) for samples that no file of images holds.
void require_packable(const Recipe& recipe, const ImageSource& source) {
  if (source.has_label_sets()) {
    fail_at(recipe.origin_of(recipe.data.chosen_format().reads_files() ? "data.labels" : "data.format"),
            "gives several labels for each image, and a packed sample has one; train without packing");
  }
  if (source.has_masks())
    fail_at(recipe.origin_of("data.masks"), "packed samples have no room for masks; train without packing");
}

/// The changes that the options ask for.
Packing packing_of(const Arguments& arguments) {
  std::vector<std::string> steps;
  if (arguments.resize > 0) steps.push_back(fmt::format("resize: {}", arguments.resize));
  steps.insert(steps.end(), arguments.filters.begin(), arguments.filters.end());
  Packing packing{.transforms = packing_transforms(fmt::format("[{}]", fmt::join(steps, ", ")))};
  packing.is_lossless = arguments.pixels;
  if (arguments.quality > 0) packing.quality = arguments.quality;
  return packing;
}

/// Writes a file from what `produce` gives to the sink; leaves none that is not complete.
template <class Produce>
void write_packed(const fs::path& path, const Recipe& recipe, const DataSource& source, StopSignals& signals,
                  const std::string& samples, const Produce& produce) {
  const OutputFile output(path, input_files(recipe, source, path.string()));
  int64_t bytes = 0;
  output.write([&](const ByteSink& sink) {
    produce([&](std::span<const std::byte> piece) {
      signals.throw_if_asked();  // here, so that no partial file remains
      bytes += static_cast<int64_t>(piece.size());
      sink(piece);
    });
  });
  print_note(output, fmt::format("{}: {}, {}", one_line(path.string()), samples, human_bytes(bytes)));
}

}  // namespace

int data_pack_command(const Arguments& arguments) {
  StopSignals signals(StopSignals::kPass);
  const std::shared_ptr<const Recipe> recipe = Recipe::load(arguments.config, arguments.overrides);
  if (is_of_table(recipe->model.kind()))
    fail_at(recipe->origin_of("data.format"), "pack copies images, and a table has none; it is read once");
  if (recipe->model.kind() == InputKind::tokens) {
    fail_at(
        recipe->origin_of("data.format"),
        fmt::format(
            "pack copies images, and the samples of {} are tokens; `trainer data tokenize` writes text as "
            "shards",
            recipe->data.format));
  }
  if (arguments.shard_samples > 0 && arguments.packed_format != kWebDataset)
    throw Error(ExitCode::usage,
                "--shard-samples: a record is one file; write --format webdataset for shards");
  require_data(*recipe);
  const Split split = arguments.split == "val" ? Split::val : Split::train;
  if (!has_split(recipe->data, split)) {
    throw Error(ExitCode::usage,
                fmt::format("--split {}: the recipe has no data.{}", arguments.split, arguments.split));
  }
  const std::unique_ptr<DataSource> stored = open_stored(recipe->data, source_request(recipe, split));
  const ImageSource* images = &as_images(*stored);
  require_packable(*recipe, *images);

  Packing packing = packing_of(arguments);
  const bool is_webdataset = arguments.packed_format == kWebDataset;
  const bool is_asked = !packing.transforms.empty() || arguments.pixels || arguments.quality > 0;
  if (!is_asked) packing.is_lossless = true;  // shards hold files, also of samples that are pixels
  const ShardFacts facts{images->class_names(), texts_of(packing.transforms)};
  std::unique_ptr<ImageSource> changed;
  if (is_asked || (is_webdataset && !images->is_encoded())) {
    changed = pack_images(*images, std::move(packing));
    images = changed.get();
  }

  const int64_t threads = thread_limit(1).value;
  const auto samples_text = [&](int64_t samples) {
    return fmt::format("{} samples of data.{}", samples, arguments.split);
  };
  signals.watch_loop();
  if (!is_webdataset) {
    write_packed(arguments.out, *recipe, *stored, signals, samples_text(images->size()),
                 [&](const auto& sink) { write_record(*images, sink, facts.transforms, threads); });
    return 0;
  }
  const ShardOutput shards{.out = arguments.out,
                           .split = arguments.split,
                           .ending = "tar",
                           .unit = "samples",
                           .option = "--shard-samples",
                           .asked = arguments.shard_samples,
                           .most = 10'000,
                           .most_of_file = std::numeric_limits<int64_t>::max()};
  const std::vector<fs::path> paths = shard_paths(shards, images->size());
  for (size_t i = 0; i < paths.size(); ++i) {
    const int64_t begin = static_cast<int64_t>(i) * shards.of_shard();
    const int64_t end =
        paths.size() == 1 ? images->size() : std::min(begin + shards.of_shard(), images->size());
    write_packed(paths[i], *recipe, *stored, signals, samples_text(end - begin),
                 [&](const auto& sink) { write_webdataset(*images, begin, end, facts, threads, sink); });
  }
  return 0;
}

}  // namespace trainer
