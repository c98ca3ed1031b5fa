// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "apps/trainer/commands.h"
#include "apps/trainer/inputs.h"
#include "apps/trainer/shard_paths.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/data/tokens/formats.h"
#include "core/data/tokens/shards.h"
#include "core/data/tokens/texts.h"
#include "core/host/limits.h"
#include "core/host/stop.h"
#include "core/recipe/job.h"
#include "core/storage/output_file.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// Where tokens are kept until they are written: beside the shards, or in memory (an empty path) if the
/// output is not a regular file.
std::string folder_beside(const ShardOutput& shards) {
  const fs::path out = shards.out;
  if (fs::exists(out) && !fs::is_directory(out) && !fs::is_regular_file(out)) return "";
  fs::path folder = fs::is_directory(out) ? out : directory_of(out);
  if (!shards.is_folder() && !fs::is_directory(folder)) {
    throw Error(ExitCode::usage, fmt::format("--out {}: there is no folder {}; create it", shards.out,
                                             one_line(folder.string())));
  }
  while (!fs::is_directory(folder)) folder = directory_of(folder);
  return folder.string();
}

}  // namespace

int data_tokenize_command(const Arguments& arguments) {
  /// As many tokens as llm.c's own shards have.
  constexpr int64_t kShardTokens = 100'000'000;
  StopSignals signals(StopSignals::kPass);
  const std::shared_ptr<const Recipe> recipe = Recipe::load(arguments.config, arguments.overrides);
  const Split split = arguments.split == "val" ? Split::val : Split::train;
  if (!recipe->data.chosen_format().is_text()) {
    fail_at(recipe->origin_of("data.format"),
            fmt::format("tokenize turns text into shards, which needs data.format text, got {}",
                        recipe->data.format));
  }
  require_data(*recipe);
  if (!has_split(recipe->data, split)) {
    throw Error(ExitCode::usage,
                fmt::format("--split {}: the recipe has no data.{}", arguments.split, arguments.split));
  }
  const ShardOutput shards{.out = arguments.out,
                           .split = arguments.split,
                           .ending = "bin",
                           .unit = "tokens",
                           .option = "--shard-tokens",
                           .asked = arguments.shard_tokens,
                           .most = kShardTokens,
                           .most_of_file = kMostShardTokens};
  recipe->data.tokens.texts->keep_in(folder_beside(shards));
  const SplitTokens tokens = open_tokens(recipe->data, split, thread_limit(1).value);
  const int64_t count = tokens.end - tokens.begin, vocabulary = tokens.tokenizer->vocabulary();
  if (count == 0) {
    throw Error(ExitCode::data,
                fmt::format("data.{}: expected tokens to write, found none", arguments.split));
  }
  const std::vector<fs::path> paths = shard_paths(shards, count);
  signals.watch_loop();
  int64_t at = tokens.begin;
  for (const fs::path& path : paths) {
    const int64_t end = paths.size() == 1 ? tokens.end : std::min(at + shards.of_shard(), tokens.end);
    const OutputFile output(path, input_files(*recipe));
    output.write([&](const ByteSink& sink) {
      write_shard(tokens.stream, at, end, vocabulary, [&](std::span<const std::byte> piece) {
        signals.throw_if_asked();  // here, so that no partial file remains
        sink(piece);
      });
    });
    print_note(output,
               fmt::format("{}: {} tokens of data.{}", one_line(path.string()), end - at, arguments.split));
    at = end;
  }
  if (!tokens.warning.empty()) print_warning(tokens.warning);
  return 0;
}

}  // namespace trainer
