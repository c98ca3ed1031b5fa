// SPDX-License-Identifier: Apache-2.0
#include "core/sweep/sweep_state.h"

#include <algorithm>
#include <cmath>

#include "core/search/halving.h"

namespace trainer {
namespace {

using What = TrialState::What;

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double deviation_of(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

/// The value of a training at a rung. One that stopped early keeps the value of its end.
std::optional<double> value_at(const RepeatRecord& repeat, size_t rung) {
  if (rung < repeat.rungs.size()) return repeat.rungs[rung].value;
  return repeat.end ? std::optional(repeat.end->value) : std::nullopt;
}

bool has_finished(const RepeatRecord& repeat) {
  return repeat.end.has_value();
}

/// The values at each rung that all repeats have reached, and at the end.
TrialState values_of(const SweepPlan& plan, const TrialRecord& record) {
  TrialState state;
  if (record.repeats.size() < plan.repeats().size()) return state;
  const bool all_finished = std::ranges::all_of(record.repeats, has_finished);
  for (size_t rung = 0; rung < plan.rungs().size(); ++rung) {
    // A setting all of whose trainings have stopped early does not come to the rung.
    const bool any_reached = std::ranges::any_of(
        record.repeats, [&](const RepeatRecord& repeat) { return rung < repeat.rungs.size(); });
    std::vector<double> values;
    for (const RepeatRecord& repeat : record.repeats) {
      if (const std::optional<double> value = value_at(repeat, rung)) values.push_back(*value);
    }
    if (!any_reached || values.size() < record.repeats.size()) break;
    state.rungs.push_back(mean_of(values));
    state.spreads.push_back(deviation_of(values));
  }
  if (!all_finished) return state;
  std::vector<double> values;
  for (const RepeatRecord& repeat : record.repeats) values.push_back(repeat.end->value);
  state.value = mean_of(values);
  state.spread = deviation_of(values);
  return state;
}

class Decisions {
 public:
  Decisions(const SweepPlan& plan, const TrialRecords& records) : plan_(plan), records_(records) {}

  std::vector<TrialState> all() {
    bool all_recorded = true;
    int64_t decided = 0;  // trials before this one, all of them
    for (int64_t number = 0; number < plan_.trials(); ++number) {
      const auto found = records_.find(number);
      states_.push_back(found == records_.end() ? TrialState{} : judged(found->second));
      if (found == records_.end() && is_known(number, all_recorded, decided))
        states_.back().what = What::ready;
      all_recorded = all_recorded && found != records_.end();
      if (decided == number && states_.back().is_decided()) ++decided;
    }
    return std::move(states_);
  }

 private:
  /// Whether the setting of a trial that has not begun can be made: from the settings of all before it and
  /// the results of those that it waits for.
  bool is_known(int64_t number, bool all_recorded, int64_t decided) const {
    return plan_.is_fixed(number) || (all_recorded && decided > number - plan_.section().method->lag());
  }

  TrialState judged(const TrialRecord& record) const {
    TrialState state = values_of(plan_, record);
    state.what = What::ready;
    if (record.failure) {
      state.what = What::failed;
      return state;
    }
    for (; state.next < state.rungs.size(); ++state.next) {
      const std::optional<bool> on = goes_on_at(state, state.next);
      if (on == true) continue;
      state.what = on ? What::dropped : What::waiting;
      return state;
    }
    if (state.value) state.what = What::finished;
    return state;
  }

  /// Nothing if a trial before it may still come to the rung.
  std::optional<bool> goes_on_at(const TrialState& state, size_t rung) const {
    std::vector<double> values;
    for (const TrialState& before : states_) {
      if (rung < before.rungs.size()) {
        values.push_back(before.rungs[rung]);
      } else if (!before.is_decided()) {
        return std::nullopt;
      }
    }
    values.push_back(state.rungs[rung]);
    return goes_on(values, plan_.section().halving_factor, plan_.maximizes());
  }

  const SweepPlan& plan_;
  const TrialRecords& records_;
  std::vector<TrialState> states_;
};

Observation observation_of(const SweepPlan& plan, const TrialRecord& record, const TrialState& state) {
  using State = Observation::State;
  std::optional<Setting> values = plan.values_of(record.texts);
  if (!values) return {.state = State::failed};  // outside of the space nothing is learned from it
  Observation seen{.setting = *std::move(values)};
  switch (state.what) {
    case What::finished:
      seen.state = State::finished;
      seen.value = *state.value;
      break;
    case What::dropped:
      seen.state = State::dropped;
      seen.value = state.rungs[state.next];
      seen.rung = static_cast<int64_t>(state.next);
      break;
    case What::failed:
      seen.state = State::failed;
      break;
    default:
      break;
  }
  return seen;
}

}  // namespace

std::vector<TrialState> sweep_state(const SweepPlan& plan, const TrialRecords& records) {
  return Decisions(plan, records).all();
}

std::vector<Observation> observations(const SweepPlan& plan, const TrialRecords& records,
                                      const std::vector<TrialState>& states) {
  std::vector<Observation> all;
  for (const auto& [number, record] : records) {
    if (number < std::ssize(states))
      all.push_back(observation_of(plan, record, states[static_cast<size_t>(number)]));
  }
  return all;
}

std::vector<Observation> observations_before(const SweepPlan& plan, const TrialRecords& records,
                                             const std::vector<TrialState>& states, int64_t number) {
  std::vector<Observation> all;
  for (int64_t before = 0; before < number; ++before) {
    const bool is_seen = before <= number - plan.section().method->lag();
    all.push_back(observation_of(plan, records.at(before),
                                 is_seen ? states[static_cast<size_t>(before)] : TrialState{}));
  }
  return all;
}

std::vector<int64_t> trials_without_checkpoints(const SweepPlan& plan,
                                                const std::vector<TrialState>& states) {
  std::vector<int64_t> finished, without;
  for (int64_t number = 0; number < std::ssize(states); ++number) {
    const What what = states[static_cast<size_t>(number)].what;
    if (what == What::dropped) without.push_back(number);
    if (what == What::finished) finished.push_back(number);
  }
  const auto value = [&](int64_t number) { return *states[static_cast<size_t>(number)].value; };
  std::ranges::stable_sort(finished,
                           [&](int64_t a, int64_t b) { return plan.is_better(value(a), value(b)); });
  const auto kept = std::min(plan.section().keep, std::ssize(finished));
  without.insert(without.end(), finished.begin() + kept, finished.end());
  return without;
}

std::optional<int64_t> best_trial(const SweepPlan& plan, const std::vector<TrialState>& states) {
  std::optional<int64_t> best;
  for (int64_t number = 0; number < std::ssize(states); ++number) {
    const TrialState& state = states[static_cast<size_t>(number)];
    if (!state.value || state.what != What::finished || !std::isfinite(*state.value)) continue;
    if (!best || plan.is_better(*state.value, *states[static_cast<size_t>(*best)].value)) best = number;
  }
  return best;
}

}  // namespace trainer
