// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/scaling_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "apps/trainer/scaling_row.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/split.h"
#include "core/base/units.h"

namespace trainer {
namespace {

constexpr int64_t kMostPredictedRanks = 65536;
constexpr int kDivisionWidth = 40;

std::vector<int64_t> rank_counts(const std::string& list) {
  std::vector<int64_t> counts;
  for (const std::string& part : split(list, ',')) {
    const std::string word = trimmed(part);
    int64_t count = 0;
    const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), count);
    if (problem != std::errc() || end != word.data() + word.size() || count < 1 ||
        count > kMostPredictedRanks) {
      throw Error(
          ExitCode::usage,
          fmt::format("--ranks: expected numbers from 1 to {} with commas between, as in 8,64; got '{}'",
                      kMostPredictedRanks, one_line(word)));
    }
    counts.push_back(count);
  }
  return counts;
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string heading(bool has_energy) {
  return fmt::format("{:>6}  {:<{}} {:>12} {:>12} {:>10} {:>9} {:>9} {:>12}{}\n", "ranks", "division",
                     kDivisionWidth, "step", "samples/s", "efficiency", "waiting", "slowest", "memory",
                     has_energy ? fmt::format(" {:>10}", "J/sample") : "");
}

std::string line(const ScalingRow& row, bool has_energy) {
  const std::string start =
      fmt::format("{:>6}  {:<{}}", row.division.ranks(), to_string(row.division), kDivisionWidth);
  if (!row.problem.empty()) return fmt::format("{} {}\n", start, row.problem);
  std::string text = fmt::format("{} {:>12} {:>12.0f} {:>10} {:>9} {:>9} {:>12}", start,
                                 fmt::format("{:.2f} ms", 1e3 * row.seconds()), row.samples_per_second(),
                                 row.efficiency ? percent(*row.efficiency) : "-",
                                 percent(row.step.slowest.waiting / row.seconds()),
                                 percent(row.slowest / row.seconds()), human_bytes(row.step.memory));
  if (has_energy) {
    const auto joules = row.joules_per_sample();
    text += fmt::format(" {:>10}", joules ? fmt::format("{:.3g}", *joules) : "-");
  }
  return text + (row.fits() ? "\n" : fmt::format("  DOES NOT FIT into {}\n", human_bytes(*row.available)));
}

std::string notes(const Scaling& scaling, const std::vector<ScalingRow>& rows, const Arguments& arguments,
                  bool has_energy) {
  std::string text = fmt::format(
      "Predicted for {}, {} devices a node; operations' times {}.\n", scaling.machine().name,
      scaling.machine().devices_of_node,
      scaling.is_measured() ? fmt::format("as measured in {}", one_line(arguments.measured.back()))
      : arguments.speed > 0 ? fmt::format("from {:g} samples/s of one device", arguments.speed)
                            : "from the device's rates");
  text += arguments.weak ? "The global batch grows with the ranks (--weak).\n"
                         : "The global batch stays; --weak lets it grow with the ranks.\n";
  text += fmt::format(
      "waiting: the share of a step without computation, for transfers at {:.0f} % of the links' rates{}.\n",
      100 * scaling.machine().link_share, arguments.splits ? " and for other stages" : "");
  text +=
      scaling.has_measured_spread()
          ? fmt::format("slowest: waiting for the slowest rank; a step varies by {:.1f} %, as measured.\n",
                        100 * scaling.spread())
          : fmt::format(
                "slowest: waiting for the slowest rank; a step is taken to vary by {:.1f} %, which "
                "no run has measured.\n",
                100 * scaling.spread());
  const ScalingRow& least_known = *std::ranges::max_element(rows, {}, &ScalingRow::unmeasured);
  if (least_known.unmeasured > 0)
    text += fmt::format("{} operations of {} ranks are not in the profile: they take its mean time a byte.\n",
                        least_known.unmeasured, least_known.division.ranks());
  if (has_energy) text += "J/sample: at the power limits, all the time.\n";
  return text;
}

}  // namespace

void print_scaling_table(const Arguments& arguments) {
  const std::vector<int64_t> counts = rank_counts(arguments.ranks);
  const Scaling scaling(arguments);
  std::vector<ScalingRow> rows;
  for (const int64_t count : counts) {
    if (!arguments.splits) {
      rows.push_back(scaling.row(count));
      continue;
    }
    for (ScalingRow& row : scaling.splits(count)) rows.push_back(std::move(row));
  }
  if (arguments.json) {
    Json all = Json::array();
    for (const ScalingRow& row : rows) all.push_back(to_json(row));
    print_to_output(all.dump(2, Json::NotUtf8::replace) + "\n");
    return;
  }
  const bool has_energy =
      std::ranges::any_of(rows, [](const ScalingRow& row) { return row.watts.has_value(); });
  std::string text = heading(has_energy);
  for (const ScalingRow& row : rows) text += line(row, has_energy);
  print_to_output(text + notes(scaling, rows, arguments, has_energy));
}

}  // namespace trainer
