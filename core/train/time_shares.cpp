// SPDX-License-Identifier: Apache-2.0
#include "core/train/time_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainer {
namespace {

double percent(double seconds, double total) {
  return 100 * seconds / total;
}

std::string data_advice(const TimeShares& time, const TimeFacts& facts) {
  if (facts.workers == 0) return "no thread makes batches ahead of time: data.workers=1";
  const double per_batch = time.computing / static_cast<double>(std::max<int64_t>(1, facts.batches));
  // A worker that waits for a processor does not read.
  const double used = facts.made_seconds * facts.made_busy;
  const auto needed = static_cast<int64_t>(std::ceil(used / std::max(per_batch, 1e-9)));
  constexpr double kReads = 0.5, kBusy = 0.8, kCrowded = 0.1;
  const bool has_processors =
      facts.made_busy * static_cast<double>(facts.workers) < kBusy * static_cast<double>(facts.cores) &&
      time.stolen < kCrowded * time.total();
  if (facts.made_busy < kReads && has_processors)
    return fmt::format(
        "{:.0f} % of the workers' time is spent on reading: keep the data on a disk of this machine, or pack "
        "it "
        "(`trainer data pack`)",
        100 * (1 - facts.made_busy));
  if (needed <= facts.workers)
    return fmt::format("raise data.prefetch, or data.workers above {}", facts.workers);
  if (needed > facts.cores)
    return fmt::format(
        "a worker takes {:.1f} ms for a batch that is computed in {:.1f} ms, and {} cores are too few: use "
        "smaller images, fewer transforms, or pack the data (`trainer data pack`)",
        1e3 * used, 1e3 * per_batch, facts.cores);
  return fmt::format(
      "a worker takes {:.1f} ms for a batch that is computed in {:.1f} ms: {} more {} needed "
      "(data.workers={}), or smaller images",
      1e3 * facts.made_seconds, 1e3 * per_batch, needed - facts.workers,
      needed - facts.workers == 1 ? "is" : "are", needed);
}

std::string rank_advice(const TimeShares& /*time*/, const TimeFacts& facts) {
  constexpr double kSlow = 1.2;
  if (facts.slowest && facts.slowest->second >= kSlow)
    return fmt::format(
        "rank {} takes {:.1f} times as long as the others to compute: see what else its machine does, or "
        "leave "
        "it out",
        facts.slowest->first, facts.slowest->second);
  return "the ranks are equally fast, and wait for the network: a larger training.global_batch_size needs it "
         "less often";
}

struct TimeAdvice {
  double TimeShares::*part;
  double least;  ///< share of the whole from which it is worth a sentence
  std::string (*text)(const TimeShares&, const TimeFacts&);
};
constexpr std::array kTimeAdvice = {
    TimeAdvice{&TimeShares::data, 0.05, data_advice},
    TimeAdvice{&TimeShares::ranks, 0.1, rank_advice},
    TimeAdvice{
        &TimeShares::stolen, 0.1,
        [](const TimeShares&, const TimeFacts&) -> std::string {
          return "other processes use the same cores: end them, or leave cores to them with device.threads";
        }},
    TimeAdvice{&TimeShares::evaluating, 0.2,
               [](const TimeShares&, const TimeFacts&) -> std::string {
                 return "a longer validation.interval evaluates less often";
               }},
    TimeAdvice{
        &TimeShares::saving, 0.1,
        [](const TimeShares&, const TimeFacts&) -> std::string {
          return "a longer checkpoint.interval saves less often; a faster disk in run.output_dir also helps";
        }},
};

}  // namespace

double TimeShares::total() const {
  double sum = 0;
  for (const TimePart& part : kTimeParts) sum += this->*part.seconds;
  return sum;
}

TimeShares TimeShares::operator-(const TimeShares& earlier) const {
  TimeShares difference = *this;
  for (const TimePart& part : kTimeParts) difference.*part.seconds -= earlier.*part.seconds;
  return difference;
}

std::string summary_key(const TimePart& part) {
  return fmt::format("time.{}_seconds", part.key.substr(std::string_view("time_").size()));
}

std::vector<std::pair<std::string, double>> numbers_of(const TimeShares& time) {
  std::vector<std::pair<std::string, double>> numbers;
  for (const TimePart& part : kTimeParts) {
    if (time.*part.seconds > 0) numbers.emplace_back(part.key, time.*part.seconds / time.total());
  }
  return numbers;
}

std::string time_text(const TimeShares& time) {
  const double total = time.total();
  std::vector<TimePart> parts;
  for (const TimePart& part : kTimeParts) {
    if (percent(time.*part.seconds, total) >= 1) parts.push_back(part);
  }
  std::ranges::stable_sort(
      parts, [&](const TimePart& a, const TimePart& b) { return time.*a.seconds > time.*b.seconds; });
  std::vector<std::string> texts;
  for (const TimePart& part : parts)
    texts.push_back(fmt::format("{:.0f} % {}", percent(time.*part.seconds, total), part.text));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string time_advice(const TimeShares& time, const TimeFacts& facts) {
  TimeShares all = time;
  all.ranks = std::max(time.ranks, facts.waited);  // this rank may be the one that the others wait for
  const TimeAdvice* chosen = nullptr;
  for (const TimeAdvice& advice : kTimeAdvice) {
    if (all.*advice.part < advice.least * time.total()) continue;
    if (chosen == nullptr || all.*advice.part > all.*chosen->part) chosen = &advice;
  }
  return chosen == nullptr ? "" : chosen->text(time, facts);
}

}  // namespace trainer
