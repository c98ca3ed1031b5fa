// SPDX-License-Identifier: Apache-2.0
// What makes a recipe's run the same run, and the directory that follows from it.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/config/environment.h"
#include "core/config/old_keys.h"
#include "core/recipe/recipe.h"
#include "core/recipe/run_name.h"
#include "core/recipe/value_path.h"

namespace trainer {
namespace {

/// Paths of all keys with a single value: braces in a name may hold these.
std::vector<std::string> scalar_paths(const Value& value, const std::string& path) {
  if (value.kind == Value::Kind::scalar) return {path};
  std::vector<std::string> paths;
  for (const Value::Entry& entry : value.entries) {
    const std::vector<std::string> below =
        scalar_paths(entry.value, path.empty() ? entry.key : path + "." + entry.key);
    paths.insert(paths.end(), below.begin(), below.end());
  }
  return paths;
}

/// The network's keys are now in the text itself, so the file and the templates are no longer needed.
Value without_network_file(Value root) {
  if (Value* model = find_section(root, "model")) {
    std::erase_if(model->entries, [](const Value::Entry& entry) {
      return entry.key == "network" || entry.key == "templates";
    });
  }
  return root;
}

/// Values of environment variables are hidden, as in the rest of an identity.
Value::Entry without_environment(Value::Entry entry) {
  for (Value::Entry& inner : entry.value.entries) inner = without_environment(inner);
  if (entry.value.entries.empty() && reads_environment(entry.value)) {
    entry.value.raw = entry.value.text;
    entry.value = hidden(entry.key, entry.value);
  }
  return entry;
}

/// Settings of evaluations that affect results: their interval, if they decide on the learning rate or the
/// run's end, and the rule of the latter.
void add_evaluations(Value& numbers, const Value& all, bool stops_early) {
  Value& section = *find_section(numbers, "validation");
  section.entries.push_back(without_environment(*find_path(all, "validation.interval")));
  if (stops_early) section.entries.push_back(without_environment(*find_path(all, "validation.early_stop")));
}

}  // namespace

std::string Recipe::to_yaml(bool sources) const {
  const std::string rate = sources ? rate_text() : "";
  return (rate.empty() ? "" : "# " + rate + "\n") +
         trainer::to_yaml(without_network_file(fields_.resolved()), sources);
}

std::string Recipe::rate_text() const {
  if (!optimizer->lr_for_batch) return "";
  return fmt::format("learning rate {:.6g} for batches of {}: optimizer.lr of {:.6g} for {}, scaled by {}",
                     optimizer->lr_at(training.global_batch_size), training.global_batch_size, optimizer->lr,
                     *optimizer->lr_for_batch,
                     optimizer->lr_scaling == "sqrt" ? "the square root" : "the ratio");
}

bool Recipe::stratifies() const {
  return data.divides_train() && data.images.stratify && model.kind() == InputKind::pixels &&
         loss->target_kind() != TargetKind::numbers && !data.chosen_format().reads_masks();
}

RunIdentity Recipe::identity() const {
  return identity_with(stratifies());
}

RunIdentity Recipe::identity_with(bool stratifies) const {
  Value numbers = without_network_file(fields_.resolved(Fields::Form::identity));
  if (!stratifies)
    std::erase_if(find_section(numbers, "data")->entries,
                  [](const Value::Entry& entry) { return entry.key == "stratify"; });
  const bool stops_early = validation.stop_metric.has_value();
  if (stops_early || lr_scheduler->plateau()) add_evaluations(numbers, fields_.resolved(), stops_early);
  return identity_of(numbers);
}

Value Recipe::settings() const {
  return without_network_file(fields_.resolved(Fields::Form::canonical));
}

std::string Recipe::output_directory_checked(const RunIdentity& identity, Diagnostics& diagnostics) const {
  const Value all = fields_.resolved();
  const auto lookup = [&](const std::string& name) -> std::optional<std::string> {
    if (name == "hash") return text_hash(identity.mathematics).substr(0, kShortHash);
    const std::string key = under_new_name({name, ""}).path;
    const Value::Entry* found = find_path(all, key);
    if (found == nullptr || found->value.kind != Value::Kind::scalar) return std::nullopt;
    const Value::Entry* given = find_path(given_, key);  // paths as they are written
    const std::string& text = given == nullptr ? found->value.text : given->value.text;
    if (key != "run.name") check_is_name(text, origin_of(key), diagnostics);
    // Finds a directory again that was named by an old name of a key.
    return key == name ? text : as_in_identities({key, text}).value;
  };
  return expand_name(expand_home(run.output_dir), lookup, origin_of("run.output_dir"), diagnostics,
                     scalar_paths(all, ""));
}

std::string Recipe::output_directory() const {
  Diagnostics diagnostics;
  std::string directory = output_directory_checked(identity(), diagnostics);
  diagnostics.throw_if_any();
  return directory;
}

std::optional<Recipe::EarlierRun> Recipe::earlier_run() const {
  if (!stratifies() || find_path(given_, "data.stratify") != nullptr) return std::nullopt;
  Diagnostics ignored;
  RunIdentity before = identity_with(false);
  std::string directory = output_directory_checked(before, ignored);
  return EarlierRun{std::move(directory), std::move(before)};
}

}  // namespace trainer
