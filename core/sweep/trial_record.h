// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// The metric after a step.
struct TrialValue {
  int64_t step = 0;
  double value = 0;
  bool operator==(const TrialValue&) const = default;
};

/// One training of a setting, of which there are several if the sweep repeats.
struct RepeatRecord {
  std::vector<TrialValue> rungs;  ///< at each rung so far
  std::optional<TrialValue> end;  ///< of a finished training
  int64_t steps = 0;              ///< so far
  double seconds = 0;             ///< of its processes, so far
  double samples_per_s = 0, joules_per_sample = 0;
  int64_t peak_bytes = 0;
  bool operator==(const RepeatRecord&) const = default;
};

/// Why a trial has no value. An end that says something about the setting; nothing else ends a trial.
struct TrialFailure {
  std::string reason;   ///< "memory", "numeric", "data", "settings", "timeout", "killed", "stopped"
  int64_t code = 0;     ///< of its process; 0: a signal ended it
  std::string message;  ///< its last line
  bool operator==(const TrialFailure&) const = default;
};

/// All that is known of a trial; its file is trial-NNNN.json.
struct TrialRecord {
  int64_t number = 0;
  std::vector<std::string> overrides;  ///< of the recipe
  std::vector<std::string> texts;      ///< the value of each column; "" if it has none
  std::vector<RepeatRecord> repeats;   ///< those that have begun
  std::optional<TrialFailure> failure;
  int64_t kills = 0, requeues = 0;  ///< ends after which it went on
  bool operator==(const TrialRecord&) const = default;
};

std::string to_json(const TrialRecord& record);
/// Nothing for any other text.
std::optional<TrialRecord> parse_trial(std::string_view text);

/// "trial-0007"
std::string trial_name(int64_t number);

/// Replaced atomically. Throws Error (exit 74).
void write_trial(const std::filesystem::path& sweep, const TrialRecord& record);

}  // namespace trainer
