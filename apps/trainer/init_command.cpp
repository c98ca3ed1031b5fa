// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/trainer/commands.h"
#include "apps/trainer/init_masks.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/config/environment.h"
#include "core/config/file_path.h"
#include "core/config/messages.h"
#include "core/config/networks.h"
#include "core/data/formats.h"
#include "core/data/images/channels.h"
#include "core/data/images/source.h"
#include "core/data/images/statistics.h"
#include "core/host/limits.h"
#include "core/recipe/assemble.h"
#include "core/recipe/initial_weights.h"
#include "core/recipe/recipe.h"
#include "core/recipe/starter.h"
#include "core/recipe/starter_table.h"
#include "core/run/trained_files.h"
#include "core/run/weights.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// Samples that are read for sizes and statistics.
constexpr int64_t kMeasured = 2000;

DataSection section_of(const FoundData& found) {
  DataSection section;
  section.format = found.format;
  section.train = found.train.string();
  section.val = found.val.string();
  if (!found.labels.empty()) section.use_labels(found.labels);
  return section;
}

Starter measure_found(const FoundData& found) {
  if (!found.masks.empty()) return measure_masks(found, kMeasured);
  DataSection section = section_of(found);
  SourceRequest request;
  const SourceInfo info = peek_source(section, request).value();  // of all training samples
  if (info.size > kMeasured) {
    section.val_fraction = static_cast<double>(kMeasured) / static_cast<double>(info.size);
    request.split = Split::val;
  }
  const std::unique_ptr<DataSource> source = open_stored(section, request);
  SkippedFiles skipped = info.skipped;
  if (!found.val.empty()) {
    const SourceInfo of_val = peek_source(section_of(found), {.split = Split::val}).value();
    for (const auto& [type, count] : of_val.skipped.by_type()) skipped.add(type, count);
  }
  return {.data = found,
          .statistics = measure(as_images(*source), thread_limit(1).value),
          .samples = info.size,
          .classes = source->classes(),
          .has_label_sets = info.has_label_sets,
          .shape = source->sample_shape(),
          .skipped = skipped};
}

/// The path as a recipe in `folder` writes it: relative if the user's was.
fs::path written_in(const fs::path& folder, const fs::path& path) {
  if (path.empty() || path.is_absolute()) return path;
  return fs::absolute(path).lexically_normal().lexically_proximate(
      (fs::current_path() / folder).lexically_normal());
}

/// Throws if the recipe would resolve to another path: some texts in a recipe are expanded.
void require_literal(const fs::path& path, bool is_list) {
  const std::string text = path.string();
  const char* expanded = reads_environment(text)                          ? "${env:...}"
                         : expand_home(text) != text                      ? "~"
                         : is_list && text.find(',') != std::string::npos ? ","
                                                                          : nullptr;
  if (expanded == nullptr) return;
  throw Error(
      ExitCode::usage,
      fmt::format("{}: a recipe gives '{}' in a path a meaning of its own; rename the folder or file, "
                  "or name it by a link",
                  one_line(text), expanded));
}

/// A word, quoted for a shell.
std::string shell_word(const std::string& text) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_./-+:@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return text;
  std::string word = "'";
  for (char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string found_text(const std::string& path, const Starter& starter) {
  const SplitStatistics& found = starter.statistics;
  std::vector<std::string> names = found.class_names;
  constexpr size_t kShownNames = 5;
  const bool is_cut = names.size() > kShownNames;
  if (is_cut) names.resize(kShownNames);
  for (std::string& name : names) name = shown(name);
  std::string text = fmt::format("{}: {}{}, {} training samples", path, starter.data.format,
                                 starter.data.masks.empty() ? "" : " with masks", starter.samples);
  if (starter.data.is_unlabelled)
    text +=
        " without labels: the recipe is of an autoencoder; labels may come from sub-folders or a CSV file";
  if (!starter.data.is_unlabelled) text += fmt::format(" of {} classes", starter.classes);
  if (!starter.data.labels.empty()) text += fmt::format(" by {}", one_line(starter.data.labels));
  if (!names.empty()) text += fmt::format(" ({}{})", fmt::join(names, ", "), is_cut ? ", …" : "");
  text += fmt::format("\n  width {} to {}, height {} to {}", found.width.least, found.width.most,
                      found.height.least, found.height.most);
  if (found.samples < starter.samples) text += fmt::format(", in {} of them", found.samples);
  constexpr size_t kShownSamples = 5;
  for (size_t i = 0; i < std::min(kShownSamples, found.unreadable.size()); ++i) {
    const UnreadableSample& sample = found.unreadable[i];
    text += fmt::format("\n  cannot be read: {}: {}", one_line(sample.name), sample.reason);
  }
  if (!starter.data.note.empty()) text += "\n  " + starter.data.note;
  if (starter.skipped.total() > 0) text += "\n  " + starter.skipped.text();
  if (found.unreadable.size() > kShownSamples)
    text += fmt::format("\n  {} cannot be read; `trainer data stats` lists them", found.unreadable.size());
  return text;
}

/// Throws if there is nothing to distinguish.
void require_classes(const fs::path& path, const Starter& starter) {
  if (starter.classes > 1 || starter.has_label_sets || starter.data.is_unlabelled) return;
  if (!starter.data.masks.empty()) {
    throw Error(
        ExitCode::data,
        fmt::format("{}: expected masks of at least two classes, found no pixel of another class than 0",
                    one_line(starter.data.masks.string())));
  }
  const fs::path place = starter.data.labels.empty() ? path : path / starter.data.labels;
  throw Error(
      ExitCode::data,
      fmt::format("{}: expected at least two classes, found one; {} (docs/own-data.md)",
                  one_line(place.string()),
                  starter.data.labels.empty() ? "put the images of each class into a folder of its own"
                                              : "name the class of each image in the column of labels"));
}

/// A line for classes with too few images to learn from, as far as all were measured; empty if none has.
std::string small_classes(const Starter& starter) {
  constexpr int64_t kFew = 10;
  constexpr size_t kShown = 5;
  const SplitStatistics& found = starter.statistics;
  if (found.samples < starter.samples || starter.data.is_unlabelled || found.ignored_pixels) return "";
  std::vector<std::string> few;
  for (size_t i = 0; i < found.per_class.size(); ++i) {
    const std::string name = i < found.class_names.size() ? shown(found.class_names[i]) : std::to_string(i);
    if (found.per_class[i] < kFew) few.push_back(fmt::format("{} ({})", name, found.per_class[i]));
  }
  if (few.empty()) return "";
  const size_t more = few.size() - std::min(few.size(), kShown);
  few.resize(few.size() - more);
  return fmt::format("\n  classes of fewer than {} images that can be read: {}{}", kFew, fmt::join(few, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

/// The network's keys with the number of classes, as a recipe in the working directory.
std::shared_ptr<const Recipe> recipe_of(const Arguments& arguments, int64_t classes) {
  Value name;
  name.kind = Value::Kind::scalar;
  name.text = arguments.network;
  Diagnostics diagnostics;
  const Location place{.file = "--network"};
  load_network(name, place, diagnostics);  // so that a misspelt name is reported at its place
  diagnostics.throw_if_any();
  Value map;
  map.kind = Value::Kind::map;
  map.entries.push_back({"network", place, name});
  return Recipe::parse(fmt::format("version: 1\nmodel:\n  {}  num_classes: {}\ndata: {{format: synthetic}}\n",
                                   to_yaml(map, false), classes),
                       "--network", {});
}

/// Throws unless the network takes square images, and the weights are this network's but for the head.
StarterNetwork checked_network(const Arguments& arguments, const Starter& starter) {
  const std::shared_ptr<const Recipe> recipe = recipe_of(arguments, starter.classes);
  const Shape shape = recipe->model.input;
  const bool fits = recipe->model.kind() == InputKind::pixels && shape.size() == 3 && shape[1] == shape[2] &&
                    can_convert_channels(starter.shape[0], shape[0]);
  if (!fits) {
    throw Error(
        ExitCode::usage,
        fmt::format("--network {}: expected a network for square images of {} channels, "
                    "found one for {} of {}",
                    shown(arguments.network), starter.shape[0], recipe->model.input_kind, to_string(shape)));
  }
  if (!arguments.weights.empty()) {
    const Program program = forward_program(recipe);
    check_weights(program.tensors, find_trained(arguments.weights).model, replaced_by(*recipe));
  }
  return {arguments.network, shape, arguments.weights};
}

/// Its paths as the recipe should write them.
StarterNetwork written_in(const fs::path& folder, StarterNetwork network) {
  if (!is_network_name(network.name)) {
    network.name = written_in(folder, fs::path(network.name)).string();
    require_literal(network.name, false);
  }
  network.weights = written_in(folder, network.weights);
  require_literal(network.weights, false);
  return network;
}

void write_recipe(const std::string& text, const fs::path& recipe, const OutputFile& output) {
  Recipe::parse(text, recipe.string(), {});  // checks that the written file can be read
  output.write([&](const ByteSink& sink) { sink(std::as_bytes(std::span(text))); });
  print_note(output, fmt::format("wrote {}; look at it, then train:\n  trainer --config {}",
                                 one_line(recipe.string()), shell_word(recipe.string())));
}

/// By its name.
bool is_table(fs::path path) {
  if (path.extension() == ".gz") path = path.stem();
  return path.extension() == ".csv" || path.extension() == ".tsv";
}

int init_table(const fs::path& path, const fs::path& recipe, const Arguments& arguments) {
  if (arguments.target.empty())
    throw Error(ExitCode::usage, fmt::format("{}: a table; name the column to predict with --target",
                                             one_line(path.string())));
  if (!arguments.network.empty())
    throw Error(ExitCode::usage,
                "--network is for images with classes; without it `init` chooses a network "
                "for the table");
  TableStarter starter = measure_table(path, arguments.target, thread_limit(1).value);
  const OutputFile output(recipe);
  std::string found = fmt::format(
      "{}: {} rows, {} columns of numbers and {} of categories; {} has {}", one_line(path.string()),
      starter.samples, starter.numbers, starter.categories, one_line(arguments.target),
      starter.classes > 0 ? fmt::format("{} classes", starter.classes) : "numbers");
  if (!starter.ignored.empty())
    found += fmt::format("\n  left out, as they tell rows apart: {}", fmt::join(starter.ignored, ", "));
  if (starter.without_target > 0)
    found += fmt::format("\n  {} rows have no target and are left out", starter.without_target);
  if (!starter.time.empty())
    found += fmt::format("\n  {} has dates: data.table.window makes series of the rows (docs/tables.md)",
                         one_line(starter.time));
  print_note(output, found);
  starter.train = written_in(recipe.parent_path(), path);
  require_literal(starter.train, false);
  write_recipe(table_starter_recipe(starter), recipe, output);
  return 0;
}

}  // namespace

int init_command(const Arguments& arguments) {
  const fs::path path = (fs::path(arguments.path) / "").parent_path();  // without a slash at its end
  const fs::path full = fs::weakly_canonical(path);
  fs::path name = fs::is_directory(full) ? full.filename() : full.stem();
  if (is_table(name)) name = name.stem();  // of data.csv.gz
  const fs::path recipe = arguments.out.empty() ? name.string() + ".yaml" : arguments.out;
  const fs::file_status status = fs::status(recipe);
  if (fs::is_regular_file(status) || fs::is_directory(status)) {
    throw Error(ExitCode::usage,
                fmt::format("{}: the file exists already; remove it, or name another with --output",
                            one_line(recipe.string())));
  }
  if (is_table(path) || !arguments.target.empty()) return init_table(path, recipe, arguments);
  Starter starter = measure_found(find_data(path));
  if (starter.statistics.mean.empty()) {
    const UnreadableSample& first = starter.statistics.unreadable.at(0);
    throw Error(ExitCode::data, fmt::format("{}: none of its samples can be read; {}: {}",
                                            one_line(path.string()), one_line(first.name), first.reason));
  }
  require_classes(path, starter);
  if (!arguments.network.empty() && (starter.data.is_unlabelled || !starter.data.masks.empty())) {
    throw Error(ExitCode::usage,
                "--network is for images with classes; without it `init` chooses a network for " +
                    std::string(starter.data.is_unlabelled ? "images alone" : "masks"));
  }
  if (!arguments.network.empty())
    starter.network = written_in(recipe.parent_path(), checked_network(arguments, starter));
  const OutputFile output(recipe);
  print_note(output, found_text(one_line(path.string()), starter) + small_classes(starter));
  const bool takes_lists = section_of(starter.data).chosen_format().takes_lists();
  FoundData& data = starter.data;
  for (fs::path* each : {&data.train, &data.val, &data.masks, &data.val_masks, &data.class_names}) {
    *each = written_in(recipe.parent_path(), *each);
    require_literal(*each, takes_lists);
  }
  require_literal(data.labels, false);
  write_recipe(starter_recipe(starter), recipe, output);
  return 0;
}

}  // namespace trainer
