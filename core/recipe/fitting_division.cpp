// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/fitting_division.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "core/host/limits.h"
#include "core/host/process.h"
#include "core/recipe/memory_fit.h"

namespace trainer {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
/// What a process takes besides, once it is one of several: MPI's and what varies from one start to the next,
/// and on a GPU what planners leave to NCCL.
constexpr int64_t kRankOnCpu = 20 * kMiB, kRankOnGpu = 512 * kMiB;

struct Division {
  int64_t data = 1, tensor = 1, pipeline = 1;
  bool shards = false;
  int64_t ranks() const { return data * tensor * pipeline; }
};

/// In the order in which they are tried: few ranks before many, and shards before other divisions.
std::vector<Division> possible_divisions(int64_t least_ranks) {
  constexpr int64_t kMostRanks = 64, kMostOfTensor = 8;
  std::vector<Division> found;
  for (int64_t ranks = std::max<int64_t>(2, least_ranks); ranks <= kMostRanks; ranks *= 2) {
    found.push_back({.data = ranks, .shards = true});
    if (ranks <= kMostOfTensor) found.push_back({.tensor = ranks});
    found.push_back({.pipeline = ranks});
  }
  return found;
}

struct Setting {
  std::string key, value;
  bool is_new = true;  ///< the recipe has another value
};

/// All keys that divide a network.
std::vector<Setting> settings_of(const Division& division, const ParallelismSection& present) {
  const auto truth = [](bool flag) { return std::string(flag ? "true" : "false"); };
  int64_t data = 1;
  if (present.data && present.data->count) data = *present.data->count;
  const FlagOrCount& shards = present.shard_parameters;
  const bool are_shards_same = shards.flag == division.shards && !shards.count;
  return {{"data", std::to_string(division.data), data != division.data},
          {"tensor", std::to_string(division.tensor), present.tensor != division.tensor},
          {"pipeline", std::to_string(division.pipeline), present.pipeline != division.pipeline},
          {"shard_parameters", truth(division.shards), !are_shards_same},
          {"shard_optimizer", "false", present.shard_optimizer},
          {"cuts", "[]", !present.cuts.empty()},
          {"schedule.name", "1f1b", present.schedule != "1f1b"}};
}

class Search {
 public:
  Search(const Planner& planner, const Job& job, int64_t available, double most_seconds)
      : planner_(planner), job_(job), available_(available), end_(steady_seconds() + most_seconds) {}

  FittingDivision run() try {
    for (const Division& division : possible_divisions(job_.spec.ranks())) {
      if (const auto keys = keys_of(division)) return {.keys = *keys, .ranks = division.ranks()};
    }
    return {};
  } catch (const TimeIsUp&) {
    return {.is_complete = false};
  }

 private:
  struct TimeIsUp {};

  const Recipe& recipe() const { return job_.spec.recipe(); }

  std::optional<std::string> keys_of(const Division& division) try {
    const std::vector<Setting> settings = settings_of(division, recipe().parallelism);
    std::vector<std::string> overrides = {"training.micro_batch_size=auto"}, changed;
    for (const Setting& each : settings) {
      overrides.push_back(fmt::format("parallelism.{}={}", each.key, each.value));
      if (each.is_new) changed.push_back(overrides.back());
    }
    const int64_t on_host =
        division.ranks() == job_.spec.ranks() ? job_.spec.ranks_on_host() : division.ranks();
    const RunSpec spec(Recipe::parse(recipe().to_yaml(false), recipe().file(), overrides),
                       {.rank = 0, .ranks = division.ranks()}, on_host);
    // A division of all that lasts from step to step would not be enough.
    if (Checkpoints::checkpoint_bytes(job_.plan) / division.ranks() > room(spec)) return std::nullopt;
    const auto rows = micro_batch(spec);
    if (!rows) return std::nullopt;
    const std::optional<AutoCount>& given = recipe().training.micro_batch_size;
    if (*rows != (given ? given->count.value_or(*rows) : spec.batch().rank_batch()))
      changed.push_back(fmt::format("training.micro_batch_size={}", *rows));
    return fmt::format("{}", fmt::join(changed, " "));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // this network, batch or optimizer cannot be divided so
    return std::nullopt;
  }

  /// The recipe's, or else the largest that fits; a smaller one never needs more.
  std::optional<int64_t> micro_batch(const RunSpec& spec) {
    const std::vector<int64_t> possible = spec.possible_micro_batches();
    const std::optional<AutoCount>& given = recipe().training.micro_batch_size;
    const int64_t wanted = given ? given->count.value_or(possible.front()) : possible.front();
    if (!fits(spec, possible.back())) return std::nullopt;
    const auto has = std::ranges::find(possible, wanted);
    if (has != possible.end() && fits(spec, wanted)) return wanted;
    const auto first =
        std::ranges::partition_point(possible, [&](int64_t rows) { return !fits(spec, rows); });
    return first == possible.end() ? possible.back() : *first;
  }

  bool fits(const RunSpec& spec, int64_t rows) {
    if (steady_seconds() > end_) throw TimeIsUp();
    const JobRequest request{.has_data = job_.train.has_value(), .use = job_.use};
    const Job job = make_job(spec.with_micro_batch(rows), planner_, request);
    const bool is_first_of_several = job_.spec.ranks() == 1 && !planner_.is_async();
    const int64_t program = process_bytes(job_) + (is_first_of_several ? kRankOnCpu : 0);
    return all_stages_fit(job, planner_, request, program, room(spec)) && fits_host(job);
  }

  /// Bytes of the device for one rank.
  int64_t room(const RunSpec& spec) const {
    if (!planner_.is_async()) {
      const int64_t of_host = memory_limit(spec.ranks_on_host()).value;
      return recipe().device.memory ? std::min(recipe().device.memory->bytes, of_host) : of_host;
    }
    if (recipe().device.memory) return available_;
    return available_bytes(spec, planner_) - (job_.spec.ranks() == 1 ? kRankOnGpu : 0);
  }

  /// The host of a GPU that is only described is not this one.
  bool fits_host(const Job& job) const {
    if (recipe().device.model.written != "auto") return true;
    int64_t needed = 0;
    for (const auto& [kind, bytes] : job.memory.host) needed += bytes;
    return needed <= memory_limit(job.spec.ranks_on_host()).value;
  }

  const Planner& planner_;
  const Job& job_;
  int64_t available_;
  double end_;
};

}  // namespace

FittingDivision fitting_division(const Planner& planner, const Job& job, int64_t available,
                                 double most_seconds) {
  return Search(planner, job, available, most_seconds).run();
}

}  // namespace trainer
