// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/config/fields.h"
#include "core/search/space.h"

namespace trainer {

/// A parameter of a sweep: the key of the recipe that it sets, and its values.
class SweepParameter : public Component {
 public:
  std::string key;
  Value when;  ///< a map of other parameters' keys and values; null: always

  void declare(Fields& fields) final;

  /// The column of tables: the key; of a choice without one the keys that its first value sets.
  virtual std::string name() const { return key; }
  /// Its values; the conditions are left to the section.
  virtual Dimension dimension() const = 0;
  /// How many values a grid takes of it.
  virtual int64_t points() const = 0;
  /// Settings of the recipe, "optimizer.lr=0.1", for a value of the dimension.
  virtual std::vector<std::string> overrides(double value) const = 0;
  /// That value for a table: "0.1".
  virtual std::string text(double value) const = 0;
  /// The value of the dimension that a value of the recipe is; nothing if it is none.
  virtual std::optional<double> value_of(const Value& given) const = 0;
  /// The same for the text of a table.
  virtual std::optional<double> value_of_text(const std::string& given) const;
  /// Reports values that make no range or no choice.
  virtual void check(Diagnostics& diagnostics) const = 0;

 protected:
  virtual void declare_values(Fields& fields) = 0;
};

/// How the next setting of a sweep is found.
class SweepMethod : public Component {
 public:
  enum class Kind { grid, random, tpe };
  virtual Kind kind() const = 0;
  /// A setting is chosen with the results up to the one this many before it; 0: with none.
  virtual int64_t lag() const { return 0; }
};

/// The most settings of a sweep.
constexpr int64_t kMostTrials = 10'000;

/// What `trainer sweep` varies. No part of a run's identity.
struct SweepSection {
  SweepSection();

  std::unique_ptr<SweepMethod> method;
  std::optional<Duration> first_rung;  ///< absent: no halving
  int64_t halving_factor = 3;
  std::optional<std::string> metric;  ///< default: the recipe's first
  std::optional<int64_t> trials;      ///< default: all of a grid
  int64_t parallel = 1, keep = 1, seed = 0;
  std::optional<TimeSpan> trial_timeout;
  std::vector<std::unique_ptr<SweepParameter>> parameters;
  Value tries;  ///< a list of maps of keys and values
  std::vector<std::string> know;
  std::string repeat_key;
  Value repeat_values;  ///< a list
  void declare(Fields& fields);

  bool is_given() const { return !parameters.empty(); }
  /// The parameters with their conditions.
  Space space() const;
  /// Reports what cannot be a sweep, whatever the recipe. `origin_of` finds the place of a key.
  void check(const std::function<Origin(const std::string&)>& origin_of, Diagnostics& diagnostics) const;

 private:
  void check_conditions(size_t i, Diagnostics& diagnostics) const;
  bool exclude_each_other(size_t a, size_t b) const;
};

/// "optimizer.lr=0.1" for each key of a map and its value.
std::vector<std::string> overrides_of(const Value& keys);

const Registry<SweepParameter>& sweep_parameters();
const Registry<SweepMethod>& sweep_methods();

}  // namespace trainer
