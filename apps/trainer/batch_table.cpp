// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/batch_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/json.h"
#include "core/base/units.h"

namespace trainer {
namespace {

double samples_per_second(const StepSpeed& speed) {
  return static_cast<double>(speed.samples) / speed.seconds;
}

Json json_of(const StepSpeed& speed) {
  Json json = {{"micro_batch", speed.micro_batch},
               {"samples", speed.samples},
               {"steps", speed.steps},
               {"seconds", speed.seconds},
               {"samples_per_second", samples_per_second(speed)},
               {"planned_bytes", speed.planned_bytes},
               {"peak_bytes", speed.peak_bytes},
               {"has_batch_statistics", speed.has_batch_statistics}};
  if (speed.joules) json["joules_per_sample"] = *speed.joules;
  return json;
}

std::string override_of(const std::vector<StepSpeed>& speeds) {
  return fmt::format("training.micro_batch_size={}", smallest_fast(speeds));
}

}  // namespace

std::string to_line(const StepSpeed& speed) {
  return json_of(speed).dump() + "\n";
}

std::optional<StepSpeed> parse_speed(std::string_view line) {
  const Json json = Json::parse_or_null(line);
  const auto number = [&json](const char* key) -> std::optional<double> {
    const Json* value = json.find(key);
    return value != nullptr && value->is_number() ? std::optional(value->number()) : std::nullopt;
  };
  const auto whole = [&json](const char* key) {
    const Json* value = json.find(key);
    return value == nullptr ? 0 : value->integer().value_or(0);
  };
  StepSpeed speed{.micro_batch = whole("micro_batch"),
                  .samples = whole("samples"),
                  .steps = whole("steps"),
                  .seconds = number("seconds").value_or(0),
                  .planned_bytes = whole("planned_bytes"),
                  .peak_bytes = whole("peak_bytes"),
                  .joules = number("joules_per_sample")};
  const Json* statistics = json.find("has_batch_statistics");
  speed.has_batch_statistics = statistics != nullptr && statistics->is_boolean() && statistics->boolean();
  return speed.micro_batch > 0 && speed.seconds > 0 ? std::optional(speed) : std::nullopt;
}

std::string speeds_text(const std::vector<StepSpeed>& speeds, const std::vector<int64_t>& too_large) {
  const bool has_joules = speeds[0].joules.has_value();
  std::string text = fmt::format("{:>11} {:>10} {:>10} {:>11} {:>11}{}\n", "micro-batch", "samples/s",
                                 "ms a step", "planned", "measured", has_joules ? "   J/sample" : "");
  for (const StepSpeed& speed : speeds) {
    text += fmt::format("{:>11} {:>10} {:>10.3f} {:>11} {:>11}", speed.micro_batch,
                        human_rate(samples_per_second(speed)), 1e3 * speed.seconds,
                        human_bytes(speed.planned_bytes), human_bytes(speed.peak_bytes));
    text += speed.joules ? fmt::format(" {:>10.4g}\n", *speed.joules) : "\n";
  }
  if (!too_large.empty()) text += fmt::format("do not fit into memory: {}\n", fmt::join(too_large, ", "));
  if (speeds.size() < 2) return text;
  text += fmt::format("the smallest within 5 % of the fastest: {}\n", override_of(speeds));
  if (speeds[0].has_batch_statistics)
    text +=
        "statistics, such as those of batch normalisation, are of a micro-batch, so another one changes "
        "results\n";
  return text;
}

std::string speeds_json(const std::vector<StepSpeed>& speeds, const std::vector<int64_t>& too_large) {
  Json json = {{"override", override_of(speeds)}, {"suggestion", smallest_fast(speeds)}};
  json["too_large"] = too_large;
  json["timings"] = Json::array();
  for (const StepSpeed& speed : speeds) json["timings"].push_back(json_of(speed));
  return json.dump(2) + "\n";
}

}  // namespace trainer
