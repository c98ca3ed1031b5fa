// SPDX-License-Identifier: Apache-2.0
#include "core/sweep/sweep_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>

#include "core/base/split.h"

namespace trainer {
namespace {

using OverrideList = std::vector<std::string>;

/// What the sweep gives each trial, and what says where it is.
const std::vector<std::string> kOwnKeys = {"device.index",   "device.memory", "device.threads",
                                           "run.output_dir", "run.resume",    "run.max_wall_time",
                                           "run.stop_after", "sweep"};

/// The problems that begin at one of the last `count` of these overrides, without their places.
std::vector<std::string> problems_at_end(const RecipeSource& source, const OverrideList& overrides,
                                         size_t count) try {
  source.load(overrides);
  return {};
} catch (const Error& refusal) {
  std::vector<std::string> found;
  const std::string begin = std::string(kCommandLine) + ":", middle = ": error: ";
  for (const std::string& line : split(refusal.what(), '\n')) {
    const size_t text = line.find(middle);
    if (!line.starts_with(begin) || text == std::string::npos) continue;
    size_t argument = 0;
    std::from_chars(line.data() + begin.size(), line.data() + line.size(), argument);
    if (argument + count > overrides.size()) found.push_back(line.substr(text + middle.size()));
  }
  return found;
}

class Checker {
 public:
  Checker(const Recipe& recipe, const RecipeSource& source, const OverrideList& overrides,
          Diagnostics& diagnostics)
      : recipe_(recipe),
        source_(source),
        overrides_(overrides),
        diagnostics_(diagnostics),
        space_(recipe.sweep.space()) {}

  void check_parameters() {
    const auto& parameters = recipe_.sweep.parameters;
    for (size_t i = 0; i < parameters.size(); ++i) {
      OverrideList before = overrides_;
      add_conditions(i, before);
      for (const double value : values_to_check(space_[i]))
        check(before, parameters[i]->overrides(value), parameters[i]->origin);
    }
  }

  void check_others() {
    const SweepSection& sweep = recipe_.sweep;
    for (const Value& item : sweep.tries.items) {
      check(overrides_, overrides_of(item), {item.where, "sweep.try"});
    }
    for (const Value& item : sweep.repeat_values.items)
      check(overrides_, {sweep.repeat_key + "=" + to_flow(item)}, {item.where, "sweep.repeat.values"});
  }

 private:
  /// Both ends of a range, all choices.
  static std::vector<double> values_to_check(const Dimension& dimension) {
    if (dimension.kind != Dimension::Kind::choice) return {dimension.low, dimension.high};
    std::vector<double> all;
    for (int64_t i = 0; i < dimension.choices; ++i) all.push_back(static_cast<double>(i));
    return all;
  }

  /// Overrides for which the parameter exists.
  void add_conditions(size_t parameter, OverrideList& words) const {
    for (const Dimension::Condition& condition : space_[parameter].conditions) {
      if (condition.choices.empty()) continue;
      add_conditions(condition.dimension, words);
      OverrideList more = recipe_.sweep.parameters[condition.dimension]->overrides(
          static_cast<double>(condition.choices.front()));
      std::ranges::move(more, std::back_inserter(words));
    }
  }

  /// A problem of several values is reported once.
  void check(const OverrideList& before, const OverrideList& words, const Origin& place) {
    for (const std::string& word : words) {
      const std::string key = word.substr(0, word.find('='));
      const bool is_own =
          std::ranges::any_of(kOwnKeys, [&](const std::string& own) { return key.starts_with(own); });
      if (is_own && reported_.insert(key).second)
        diagnostics_.error(place, fmt::format("{} is set by the sweep itself for each trial", key));
    }
    OverrideList all = before;
    all.insert(all.end(), words.begin(), words.end());
    for (const std::string& problem : problems_at_end(source_, all, words.size())) {
      if (reported_.insert(to_string(place.where) + problem).second) diagnostics_.error(place, problem);
    }
  }

  const Recipe& recipe_;
  const RecipeSource& source_;
  const OverrideList& overrides_;
  Diagnostics& diagnostics_;
  Space space_;
  std::set<std::string> reported_;
};

}  // namespace

std::shared_ptr<const Recipe> RecipeSource::load(const OverrideList& overrides) const {
  return text ? Recipe::parse(*text, path, overrides) : Recipe::load(path, overrides);
}

void check_sweep_values(const Recipe& recipe, const RecipeSource& source, const OverrideList& overrides,
                        Diagnostics& diagnostics) {
  Checker checker(recipe, source, overrides, diagnostics);
  checker.check_parameters();
  checker.check_others();
}

}  // namespace trainer
