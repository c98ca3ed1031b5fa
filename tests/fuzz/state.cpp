// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdlib>

#include "core/base/error.h"
#include "core/metrics/metrics.h"
#include "core/run/run_state.h"
#include "core/run/status.h"
#include "core/sweep/sweep_directory.h"
#include "core/sweep/trial_record.h"

namespace trainer {
namespace {

/// An accepted line of metrics must be equal after writing and reading.
void try_record(std::string_view text) {
  const std::optional<MetricsRecord> record = parse_record(text);
  if (!record) return;
  const std::string line = to_json(*record);
  const std::optional<MetricsRecord> again = parse_record(line);
  if (!again || to_json(*again) != line) std::abort();
  numbers_of(*record);
}

/// An accepted state must be equal after writing and reading, and its counts are never below 0.
void try_state(std::string_view text) {
  try {
    const RunState state = parse_run_state(text, "state.json");
    if (state.loop.step < 0 || state.loop.updates < 0 || state.samples < 0) std::abort();
    if (!std::isfinite(state.epoch)) return;
    const std::string written = to_json(state);
    if (to_json(parse_run_state(written, "state.json")) != written) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) std::abort();
  }
}

/// An accepted record of a trial must be equal after writing and reading.
void try_trial(std::string_view text) {
  const std::optional<TrialRecord> record = parse_trial(text);
  if (record && parse_trial(to_json(*record)) != record) std::abort();
}

}  // namespace
}  // namespace trainer

/// Files of a run's or a sweep's directory that are read when it continues or is listed.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  trainer::try_record(text);
  trainer::parse_status(text);
  trainer::try_state(text);
  trainer::try_trial(text);
  trainer::parse_sweep(text);
  return 0;
}
