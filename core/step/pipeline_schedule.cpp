// SPDX-License-Identifier: Apache-2.0
#include "core/step/pipeline_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

namespace trainer {
namespace {

/// The forward units of an interleaved schedule take turns: as many micro-batches as there are ranks in one
/// stage, then the same in the rank's next stage.
Unit interleaved(const PipelineSchedule& schedule, int64_t rank, int64_t k, bool is_backward) {
  const int64_t turn = schedule.ranks * schedule.chunks, within = k % turn;
  const int64_t chunk = within / schedule.ranks;
  return {.stage = (is_backward ? schedule.chunks - 1 - chunk : chunk) * schedule.ranks + rank,
          .is_backward = is_backward,
          .micro_batch = k / turn * schedule.ranks + within % schedule.ranks};
}

Unit nth(const PipelineSchedule& schedule, int64_t rank, int64_t k, bool is_backward) {
  if (schedule.chunks > 1) return interleaved(schedule, rank, k, is_backward);
  return {.stage = rank, .is_backward = is_backward, .micro_batch = k};
}

/// By how many units the forward parts are ahead of the backward parts.
int64_t ahead_of(const PipelineSchedule& schedule, int64_t rank) {
  const int64_t all = schedule.micro_batches * schedule.chunks, later = schedule.ranks - 1 - rank;
  switch (schedule.kind) {
    case PipelineSchedule::Kind::gpipe:
      return all;
    case PipelineSchedule::Kind::one_forward_one_backward:
      return std::min(all, later);
    case PipelineSchedule::Kind::interleaved:
      return std::min(all, 2 * later + (schedule.chunks - 1) * schedule.ranks);
  }
  return 0;
}

/// Computes when each unit begins and ends.
class Simulation {
 public:
  Simulation(const std::vector<std::vector<Unit>>& units, const std::vector<Route>& routes,
             const std::function<double(const Unit&)>& seconds)
      : units_(units), seconds_(seconds) {
    for (const Route& route : routes) from_[{route.to, route.is_backward}].push_back(route.from);
    spans_.resize(units.size());
  }

  std::vector<std::vector<Timeline::Span>> run() {
    bool moves = true;
    while (moves) {
      moves = false;
      for (size_t rank = 0; rank < units_.size(); ++rank) {
        while (spans_[rank].size() < units_[rank].size() && begin_next(rank)) moves = true;
      }
    }
    for (size_t rank = 0; rank < units_.size(); ++rank) {
      if (spans_[rank].size() == units_[rank].size()) continue;
      const Unit& unit = units_[rank][spans_[rank].size()];
      throw std::logic_error(fmt::format("rank {} waits for ever for the {} part of stage {}, micro-batch {}",
                                         rank, unit.is_backward ? "backward" : "forward", unit.stage,
                                         unit.micro_batch));
    }
    return std::move(spans_);
  }

 private:
  bool begin_next(size_t rank) {
    const Unit unit = units_[rank][spans_[rank].size()];
    double begin = spans_[rank].empty() ? 0 : spans_[rank].back().end;
    if (const auto senders = from_.find({unit.stage, unit.is_backward}); senders != from_.end()) {
      for (const int64_t stage : senders->second) {
        const auto made = ends_.find({stage, unit.is_backward, unit.micro_batch});
        if (made == ends_.end()) return false;
        begin = std::max(begin, made->second);
      }
    }
    spans_[rank].push_back({.unit = unit, .begin = begin, .end = begin + seconds_(unit)});
    ends_[unit] = spans_[rank].back().end;
    return true;
  }

  const std::vector<std::vector<Unit>>& units_;
  const std::function<double(const Unit&)>& seconds_;
  std::map<std::pair<int64_t, bool>, std::vector<int64_t>> from_;  ///< by receiving stage and part
  std::map<Unit, double> ends_;
  std::vector<std::vector<Timeline::Span>> spans_;
};

/// One of all the pipeline's actions. At one time messages come before units, which may read them.
struct Timed {
  double time = 0;
  int order = 0;
  size_t rank = 0;
  StageAction action;
};

/// The two ends of the messages that a unit makes, next to each other.
void append_messages(const PipelineSchedule& schedule, const std::vector<Route>& routes,
                     const Timeline::Span& span, std::vector<Timed>& all) {
  for (size_t r = 0; r < routes.size(); ++r) {
    if (routes[r].from != span.unit.stage || routes[r].is_backward != span.unit.is_backward) continue;
    const int64_t from = schedule.rank_of(routes[r].from), to = schedule.rank_of(routes[r].to);
    if (from == to) continue;
    for (const auto& [rank, kind] :
         {std::pair{from, StageAction::Kind::send}, {to, StageAction::Kind::receive}}) {
      all.push_back({.time = span.end,
                     .rank = static_cast<size_t>(rank),
                     .action = {.kind = kind, .route = r, .micro_batch = span.unit.micro_batch}});
    }
  }
}

}  // namespace

std::vector<Unit> units_of(const PipelineSchedule& schedule, int64_t rank) {
  const int64_t all = schedule.micro_batches * schedule.chunks, ahead = ahead_of(schedule, rank);
  std::vector<Unit> units;
  for (int64_t k = 0; k < all + ahead; ++k) {
    if (k < all) units.push_back(nth(schedule, rank, k, false));
    if (k >= ahead) units.push_back(nth(schedule, rank, k - ahead, true));
  }
  return units;
}

std::vector<Unit> forward_units_of(const PipelineSchedule& schedule, int64_t rank) {
  std::vector<Unit> units = units_of(schedule, rank);
  std::erase_if(units, [](const Unit& unit) { return unit.is_backward; });
  return units;
}

double usual_seconds(const Unit& unit) {
  return unit.is_backward ? 2 : 1;
}

double Timeline::seconds() const {
  double end = 0;
  for (const std::vector<Span>& rank : spans) {
    if (!rank.empty()) end = std::max(end, rank.back().end);
  }
  return end;
}

double Timeline::idle_share() const {
  double busy = 0;
  for (const std::vector<Span>& rank : spans) {
    for (const Span& span : rank) busy += span.end - span.begin;
  }
  const double all = seconds() * static_cast<double>(spans.size());
  return all > 0 ? 1 - busy / all : 0;
}

int64_t Timeline::most_in_flight(int64_t rank) const {
  int64_t now = 0, most = 0;
  for (const Span& span : spans[static_cast<size_t>(rank)]) {
    now += span.unit.is_backward ? -1 : 1;
    most = std::max(most, now);
  }
  return most;
}

Timeline timeline(const PipelineSchedule& schedule, const std::vector<std::vector<Unit>>& units,
                  const std::vector<Route>& routes, const std::function<double(const Unit&)>& seconds) {
  Timeline found{.spans = Simulation(units, routes, seconds).run(), .actions = {}};
  std::vector<Timed> all;
  for (size_t rank = 0; rank < units.size(); ++rank) {
    for (const Timeline::Span& span : found.spans[rank]) {
      all.push_back({.time = span.begin, .order = 1, .rank = rank, .action = {.unit = span.unit}});
      append_messages(schedule, routes, span, all);
    }
  }
  const auto key = [](const Timed& each) {
    return std::tuple(each.time, each.order, each.action.route, each.action.micro_batch);
  };
  std::ranges::stable_sort(all, {}, key);
  found.actions.resize(units.size());
  for (Timed& each : all) found.actions[each.rank].push_back(each.action);
  return found;
}

void require_end(const PipelineSchedule& schedule, const std::vector<Route>& routes,
                 const std::vector<std::vector<StageAction>>& actions) {
  std::vector<size_t> next(actions.size(), 0);
  const auto at = [&](int64_t rank) -> const StageAction* {
    const auto r = static_cast<size_t>(rank);
    return next[r] < actions[r].size() ? &actions[r][next[r]] : nullptr;
  };
  const auto partner = [&](const StageAction& action) {
    const Route& route = routes[action.route];
    return schedule.rank_of(action.kind == StageAction::Kind::send ? route.to : route.from);
  };
  bool moves = true;
  while (moves) {
    moves = false;
    for (int64_t rank = 0; std::cmp_less(rank, actions.size()); ++rank) {
      const StageAction* action = at(rank);
      if (action == nullptr) continue;
      if (action->kind != StageAction::Kind::compute) {
        StageAction other = *action;
        other.kind =
            action->kind == StageAction::Kind::send ? StageAction::Kind::receive : StageAction::Kind::send;
        const StageAction* there = at(partner(*action));
        if (there == nullptr || *there != other) continue;
        ++next[static_cast<size_t>(partner(*action))];
      }
      ++next[static_cast<size_t>(rank)];
      moves = true;
    }
  }
  for (int64_t rank = 0; std::cmp_less(rank, actions.size()); ++rank) {
    if (const StageAction* action = at(rank); action != nullptr) {
      throw std::logic_error(fmt::format("rank {} waits for ever for rank {}, at action {} of {}", rank,
                                         partner(*action), next[static_cast<size_t>(rank)],
                                         actions[static_cast<size_t>(rank)].size()));
    }
  }
}

}  // namespace trainer
