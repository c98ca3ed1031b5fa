// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/sweep_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/config/messages.h"
#include "core/config/scalar_values.h"

namespace trainer {
namespace {

constexpr int64_t kMostGridPoints = 10'000;

/// Sampled numbers have this many digits: more say nothing, and less would be seen in results.
double rounded(double value) {
  double short_value = 0;
  parse_whole(fmt::format("{:.6g}", value), short_value);
  return short_value;
}

/// Reports a range without values, and a logarithmic one that begins at 0 or below.
template <class T>
void check_range(const Component& parameter, T from, T to, bool logarithmic, Diagnostics& diagnostics) {
  if (logarithmic && from <= 0)
    diagnostics.error(parameter.origin_of("from"),
                      fmt::format("a logarithmic range begins above 0, got {}", from));
  if (from >= to)
    diagnostics.error(parameter.origin_of("to"), fmt::format("must be above from, {}, got {}", from, to));
}

/// A range of numbers.
template <bool kLog>
class RealParameter final : public SweepParameter {
 public:
  Dimension dimension() const override {
    return {.name = key, .kind = Dimension::Kind::real, .low = from_, .high = to_, .logarithmic = kLog};
  }
  int64_t points() const override { return points_; }
  std::vector<std::string> overrides(double value) const override { return {key + "=" + text(value)}; }
  std::string text(double value) const override {
    return fmt::format("{}", std::clamp(rounded(value), from_, to_));
  }
  std::optional<double> value_of(const Value& given) const override {
    double number = 0;
    if (given.kind != Value::Kind::scalar || !parse(given, number).empty()) return std::nullopt;
    return number;
  }
  void check(Diagnostics& diagnostics) const override { check_range(*this, from_, to_, kLog, diagnostics); }

 private:
  void declare_values(Fields& fields) override {
    fields.add("from", &from_, "smallest value").required();
    fields.add("to", &to_, "largest value").required();
    fields.add("points", &points_, "values that a grid takes, both ends included")
        .at_least(2)
        .at_most(kMostGridPoints);
  }

  double from_ = 0, to_ = 1;
  int64_t points_ = 5;
};

/// A range of whole numbers.
class IntegerParameter final : public SweepParameter {
 public:
  Dimension dimension() const override {
    return {.name = key,
            .kind = Dimension::Kind::integer,
            .low = static_cast<double>(from_),
            .high = static_cast<double>(to_),
            .logarithmic = logarithmic_};
  }
  int64_t points() const override { return points_; }
  std::vector<std::string> overrides(double value) const override { return {key + "=" + text(value)}; }
  std::string text(double value) const override { return fmt::format("{}", std::llround(value)); }
  std::optional<double> value_of(const Value& given) const override {
    int64_t number = 0;
    if (given.kind != Value::Kind::scalar || !parse(given, number).empty()) return std::nullopt;
    return static_cast<double>(number);
  }
  void check(Diagnostics& diagnostics) const override {
    check_range(*this, from_, to_, logarithmic_, diagnostics);
  }

 private:
  void declare_values(Fields& fields) override {
    constexpr double kExact = 9007199254740992.0;  // 2^53
    fields.add("from", &from_, "smallest value").required().at_least(-kExact).at_most(kExact);
    fields.add("to", &to_, "largest value").required().at_least(-kExact).at_most(kExact);
    fields.add("logarithmic", &logarithmic_, "whether ratios of values count, not differences");
    fields.add("points", &points_, "values that a grid takes, both ends included")
        .at_least(2)
        .at_most(kMostGridPoints);
  }

  int64_t from_ = 0, to_ = 1, points_ = 5;
  bool logarithmic_ = false;
};

/// One of several values of a key, or of several keys together.
class ChoiceParameter final : public SweepParameter {
 public:
  std::string name() const override {
    if (!key.empty() || values_.items.empty()) return key;
    std::string name;
    for (const Value::Entry& entry : values_.items[0].entries) name += (name.empty() ? "" : ",") + entry.key;
    return name;
  }
  Dimension dimension() const override {
    return {.name = name(), .kind = Dimension::Kind::choice, .choices = std::ssize(values_.items)};
  }
  int64_t points() const override { return std::ssize(values_.items); }
  std::vector<std::string> overrides(double value) const override {
    const Value& chosen = values_.items.at(static_cast<size_t>(value));
    if (!key.empty()) return {key + "=" + to_flow(chosen)};
    return overrides_of(chosen);
  }
  std::string text(double value) const override {
    return to_flow(values_.items.at(static_cast<size_t>(value)));
  }
  std::optional<double> value_of(const Value& given) const override { return value_of_text(to_flow(given)); }
  std::optional<double> value_of_text(const std::string& given) const override {
    for (size_t i = 0; i < values_.items.size(); ++i) {
      if (to_flow(values_.items[i]) == given) return static_cast<double>(i);
    }
    return std::nullopt;
  }
  void check(Diagnostics& diagnostics) const override {
    const Origin place = origin_of("values");
    if (values_.kind != Value::Kind::list || values_.items.empty())
      return diagnostics.error(place, "expected a list of at least one value, found " + describe(values_));
    std::set<std::string> texts;
    for (const Value& item : values_.items) {
      if (key.empty() && (item.kind != Value::Kind::map || item.entries.empty()))
        diagnostics.error(
            place, "without key each value is a map of keys and their values, found " + describe(item));
      if (!texts.insert(to_flow(item)).second)
        diagnostics.error(place, fmt::format("{} is listed twice", shown(to_flow(item))));
    }
  }

 private:
  void declare_values(Fields& fields) override {
    fields.add("values", &values_,
               "the values; without key each is a map of several keys of the recipe with their values");
  }

  Value values_;
};

class GridMethod final : public SweepMethod {
 public:
  Kind kind() const override { return Kind::grid; }
  void declare(Fields&) override {}
};

class RandomMethod final : public SweepMethod {
 public:
  Kind kind() const override { return Kind::random; }
  void declare(Fields&) override {}
};

class TpeMethod final : public SweepMethod {
 public:
  Kind kind() const override { return Kind::tpe; }
  int64_t lag() const override { return lag_; }
  void declare(Fields& fields) override {
    fields
        .add("lag", &lag_,
             "setting n is chosen with the results of settings up to n - lag; also the largest number of "
             "trials that "
             "train at once")
        .at_least(1)
        .at_most(1000);
  }

 private:
  int64_t lag_ = 2;
};

/// The index of the parameter before `end` that a condition names; nothing if there is none.
std::optional<size_t> named_before(const std::vector<std::unique_ptr<SweepParameter>>& parameters, size_t end,
                                   const std::string& key) {
  for (size_t i = 0; i < end; ++i) {
    if (parameters[i]->key == key) return i;
  }
  return std::nullopt;
}

/// The values of a condition: one, or a list of them.
std::vector<Value> wanted_values(const Value& value) {
  return value.kind == Value::Kind::list ? value.items : std::vector<Value>{value};
}

}  // namespace

const Registry<SweepParameter>& sweep_parameters() {
  static const Registry<SweepParameter> table = {
      {"uniform", "a number from a range", [] { return std::make_unique<RealParameter<false>>(); }},
      {"log_uniform", "a number from a range whose ratios count",
       [] { return std::make_unique<RealParameter<true>>(); }},
      {"integer", "a whole number from a range", [] { return std::make_unique<IntegerParameter>(); }},
      {"choice", "one of several values, or of several groups of keys",
       [] { return std::make_unique<ChoiceParameter>(); }},
  };
  return table;
}

const Registry<SweepMethod>& sweep_methods() {
  static const Registry<SweepMethod> table = {
      {"tpe", "tree-structured Parzen estimator: learns from the results so far",
       [] { return std::make_unique<TpeMethod>(); }},
      {"random", "independent draws", [] { return std::make_unique<RandomMethod>(); }},
      {"grid", "every combination of values; of a range `points` of them",
       [] { return std::make_unique<GridMethod>(); }},
  };
  return table;
}

std::vector<std::string> overrides_of(const Value& keys) {
  std::vector<std::string> all;
  for (const Value::Entry& entry : keys.entries) all.push_back(entry.key + "=" + to_flow(entry.value));
  return all;
}

void SweepParameter::declare(Fields& fields) {
  fields.add("key", &key, "key of the recipe, as an override names it");
  declare_values(fields);
  fields.add("when", &when,
             "other parameters' keys with the values, one or a list, for which this parameter exists");
}

std::optional<double> SweepParameter::value_of_text(const std::string& given) const {
  Value scalar;
  scalar.kind = Value::Kind::scalar;
  scalar.text = given;
  return value_of(scalar);
}

SweepSection::SweepSection() : method(sweep_methods().front().make()) {}

void SweepSection::declare(Fields& fields) {
  fields.component("method", method, sweep_methods(), "how settings are found");
  fields.section("halving", "stop poor settings early (successive halving)", [this](Fields& halving) {
    halving
        .add("first", &first_rung,
             "the first rung: training pauses after this duration, and only the best settings go on")
        .at_least(1);
    halving
        .add("factor", &halving_factor,
             "each rung is this many times as long as the one before; one setting in this many goes on")
        .at_least(2)
        .at_most(100);
  });
  fields.add("metric", &metric,
             "metric of the validation split that ranks settings, by its last evaluation; default: the first "
             "of validation.metrics, else loss");
  fields
      .add("trials", &trials,
           "settings to try, the recipe as written included; default: all of a grid, required otherwise")
      .at_least(1)
      .at_most(static_cast<double>(kMostTrials));
  fields.add("parallel", &parallel, "trials that one process trains at once").at_least(1).at_most(1024);
  fields.add("keep", &keep, "of how many of the best trials checkpoints are kept").at_least(0);
  fields.add("seed", &seed, "seed of the settings").at_least(0);
  fields.add("trial_timeout", &trial_timeout, "end a trial whose process takes longer; default: no limit")
      .at_least(1);
  fields.components("parameters", parameters, sweep_parameters(), "what is varied");
  fields.add("try", &tries, "settings to try first, each a map of keys of the recipe and values");
  fields.add("know", &know, "directories of earlier sweeps whose results tpe uses");
  fields.section("repeat", "train each setting several times", [this](Fields& repeat) {
    repeat.add("key", &repeat_key, "the key that differs, such as run.seed");
    repeat.add("values", &repeat_values, "its value in each training of a setting");
  });
}

Space SweepSection::space() const {
  Space space;
  for (size_t i = 0; i < parameters.size(); ++i) {
    space.push_back(parameters[i]->dimension());
    for (const Value::Entry& entry : parameters[i]->when.entries) {
      const std::optional<size_t> parent = named_before(parameters, i, entry.key);
      if (!parent) continue;
      Dimension::Condition condition{.dimension = *parent};
      for (const Value& value : wanted_values(entry.value)) {
        if (const std::optional<double> index = parameters[*parent]->value_of(value))
          condition.choices.push_back(static_cast<int64_t>(*index));
      }
      space.back().conditions.push_back(std::move(condition));
    }
  }
  return space;
}

void SweepSection::check(const std::function<Origin(const std::string&)>& origin_of,
                         Diagnostics& diagnostics) const {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const SweepParameter& parameter = *parameters[i];
    const size_t before = diagnostics.problems().size();
    if (parameter.key.empty() && parameter.dimension().kind != Dimension::Kind::choice)
      diagnostics.error(parameter.origin, "missing key 'key'");
    parameter.check(diagnostics);
    if (diagnostics.problems().size() == before) check_conditions(i, diagnostics);
    if (diagnostics.problems().size() != before) continue;
    for (size_t other = 0; other < i; ++other) {
      if (parameters[other]->name() == parameter.name() && !exclude_each_other(other, i))
        diagnostics.error(parameter.origin_of("key"), fmt::format("{} is varied twice", parameter.name()));
    }
  }
  if (!know.empty() && method->kind() != SweepMethod::Kind::tpe)
    diagnostics.error(origin_of("sweep.know"), "only method tpe learns from earlier sweeps");
  if (tries.kind != Value::Kind::null && tries.kind != Value::Kind::list)
    diagnostics.error(origin_of("sweep.try"), "expected a list of maps, found " + describe(tries));
  for (const Value& item : tries.items) {
    if (item.kind != Value::Kind::map)
      diagnostics.error(origin_of("sweep.try"),
                        "expected a list of maps of keys and values, found " + describe(item));
  }
  if (repeat_key.empty() != (repeat_values.kind == Value::Kind::null))
    diagnostics.error(origin_of("sweep.repeat"), "needs both key and values");
  const bool are_values = repeat_values.kind == Value::Kind::list && !repeat_values.items.empty();
  if (repeat_values.kind != Value::Kind::null && !are_values)
    diagnostics.error(origin_of("sweep.repeat.values"),
                      "expected a list of at least one value, found " + describe(repeat_values));
}

/// Whether a choice that both depend on has no value for which both exist.
bool SweepSection::exclude_each_other(size_t a, size_t b) const {
  const Space all = space();
  for (const Dimension::Condition& one : all[a].conditions) {
    for (const Dimension::Condition& other : all[b].conditions) {
      if (one.dimension != other.dimension) continue;
      const bool overlap = std::ranges::any_of(one.choices, [&](int64_t choice) {
        return std::ranges::find(other.choices, choice) != other.choices.end();
      });
      if (!overlap) return true;
    }
  }
  return false;
}

void SweepSection::check_conditions(size_t i, Diagnostics& diagnostics) const {
  const SweepParameter& parameter = *parameters[i];
  const Origin place = parameter.origin_of("when");
  if (parameter.when.kind != Value::Kind::map && parameter.when.kind != Value::Kind::null)
    return diagnostics.error(place, "expected a map of keys and values, found " + describe(parameter.when));
  for (const Value::Entry& entry : parameter.when.entries) {
    const std::optional<size_t> parent = named_before(parameters, i, entry.key);
    if (!parent || parameters[*parent]->dimension().kind != Dimension::Kind::choice) {
      diagnostics.error(
          place, fmt::format("{} is not a choice among the parameters before this one", shown(entry.key)));
      continue;
    }
    for (const Value& value : wanted_values(entry.value)) {
      if (!parameters[*parent]->value_of(value))
        diagnostics.error(
            place, fmt::format("{} is not one of the values of {}", shown(to_flow(value)), shown(entry.key)));
    }
  }
}

}  // namespace trainer
