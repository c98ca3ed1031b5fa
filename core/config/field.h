// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/units.h"
#include "core/config/file_path.h"
#include "core/config/value.h"

namespace trainer {

/// Two dimensions, height and width; a recipe writes one number for both or `[h, w]`.
using Pair = std::array<int64_t, 2>;

/// One number or `[h, w]`, where they mean different things.
struct SideOrPair {
  Pair sides = {};  ///< of one number, that twice
  bool is_pair = false;
};

/// One key of a recipe: its target and its allowed values. Setters chain.
class Field {
 public:
  using Target =
      std::variant<bool*, int64_t*, double*, std::string*, Duration*, Cadence*, TimeSpan*, ByteSize*, Pair*,
                   SideOrPair*, std::vector<int64_t>*, std::vector<double>*, std::vector<std::string>*,
                   std::optional<int64_t>*, std::optional<double>*, std::optional<std::string>*, FilePath*,
                   std::optional<FilePath>*, std::optional<ByteSize>*, std::optional<Duration>*,
                   std::optional<TimeSpan>*, std::optional<AutoCount>*, FlagOrCount*, NumbersOrBalanced*,
                   Value*>;  ///< the last: anything, as it is written

  Field& at_least(double bound);  ///< for numbers, durations' counts, and each number of a list
  Field& above(double bound);
  Field& at_most(double bound);
  Field& dimension(int64_t least);  ///< of a tensor: from this to kMaxDimension
  Field& below(double bound);
  Field& one_of(std::vector<std::string> allowed);  ///< for text, and each text of a list
  Field& required();
  Field& bare();  ///< of a component or a section: `key: value` may be short for `key: {this: value}`
  Field& path_where(bool (*tells)(const std::string& text));  ///< other texts of a path's key are words
  Field& or_one();                                            ///< of texts: one alone is a list of one
  Field& does_not_affect_results();                           ///< not part of a run's identity
  /// A key that came later: an identity leaves it out while it has this value, which stands for the results
  /// of before, so that earlier runs are found and resume.
  Field& absent_as(const std::string& value);

  /// A path that may differ between processes of one run, if an environment variable gives it: the samples
  /// there are compared instead.
  Field& left_to_samples();

  std::string name;
  std::string help;
  Target target;
  std::optional<double> minimum, maximum;
  bool minimum_excluded = false, maximum_excluded = false;
  std::vector<std::string> names;
  bool (*is_path)(const std::string& text) = nullptr;
  std::optional<std::string> absent_value;  ///< see absent_as
  bool takes_one = false;                   ///< see or_one
  bool is_required = false, is_bare = false, is_mathematics = true, is_left_to_samples = false;

  std::string type_text() const;     ///< "integer", "number", "text", "duration", "list of integers", …
  std::string bound_text() const;    ///< "at least 1", "one of: sgd, adamw", or empty
  std::string current_text() const;  ///< the target's value as YAML; after declare() that is the default
  std::string default_text() const;  ///< "required", or current_text(); for listings made before read()
};

}  // namespace trainer
