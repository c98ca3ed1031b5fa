// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/measured_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/base/json.h"

namespace trainer {
namespace {

constexpr std::array<Phase, 3> kPhaseColumns = {Phase::forward, Phase::backward, Phase::update};

/// Samples, or tokens of a generation.
double samples_of(const Timing& timing) {
  return static_cast<double>(timing.batch) * static_cast<double>(timing.runs.seconds.size());
}

std::optional<double> joules_per_sample(const Timing& timing) {
  if (!timing.runs.joules) return std::nullopt;
  return *timing.runs.joules / samples_of(timing);
}

std::optional<double> prompt_rate(const Timing& timing) {
  if (!timing.prompt) return std::nullopt;
  return static_cast<double>(timing.prompt->tokens) / timing.prompt->times.percentile(0.5);
}

std::string milliseconds(double seconds) {
  return fmt::format("{:.3f} ms", 1e3 * seconds);
}

/// One line for each batch size.
std::string times_text(const std::vector<MeasuredTime>& measured, bool generates) {
  const bool has_joules = measured[0].timing.runs.joules.has_value();
  const bool has_prompts = measured[0].timing.prompt.has_value();
  const char* sample = generates ? "token" : "sample";
  std::string text = fmt::format("  {:>9} {:>13} {:>13} {:>13} {:>12}", generates ? "sequences" : "batch",
                                 "p50", "p95", "p99", fmt::format("{}s/s", sample));
  if (has_prompts) text += fmt::format(" {:>16}", "prompt tokens/s");
  if (has_joules) text += fmt::format(" {:>11}", fmt::format("J/{}", sample));
  text += "\n";
  for (const MeasuredTime& each : measured) {
    const Timing& timing = each.timing;
    text += fmt::format("  {:>9} {:>13} {:>13} {:>13} {:>12.1f}", timing.batch,
                        milliseconds(timing.runs.percentile(0.5)), milliseconds(timing.runs.percentile(0.95)),
                        milliseconds(timing.runs.percentile(0.99)), samples_of(timing) / timing.runs.total());
    if (has_prompts) text += fmt::format(" {:>16.1f}", prompt_rate(timing).value_or(0));
    if (has_joules) text += fmt::format(" {:>11.4g}", joules_per_sample(timing).value_or(0));
    text += "\n";
  }
  return text;
}

/// One line for each layer; phases that no layer has are left out.
std::string layers_text(const Timing& timing, const std::string& what) {
  PhaseSeconds total;
  size_t width = 5;
  for (const LayerTime& layer : timing.layers) {
    total.add(layer.seconds);
    width = std::max(width, layer.place.size());
  }
  const double all = total[Phase::forward] + total[Phase::backward] + total[Phase::update];
  const auto row = [&](const std::string& name, const auto& column, const std::string& share) {
    std::string text = fmt::format("  {:<{}}", name, width);
    for (const Phase phase : kPhaseColumns) {
      if (total[phase] > 0) text += fmt::format(" {:>13}", column(phase));
    }
    return fmt::format("{} {:>8}\n", text, share);
  };
  const auto times = [&](const std::string& name, const PhaseSeconds& seconds) {
    const double sum = seconds[Phase::forward] + seconds[Phase::backward] + seconds[Phase::update];
    return row(
        name, [&](Phase phase) { return milliseconds(seconds[phase]); },
        fmt::format("{:.1f} %", all > 0 ? 100 * sum / all : 0));
  };
  std::string text = fmt::format("\noperations one by one, {} {}\n", what, timing.batch);
  text += row(
      "layer", [](Phase phase) { return std::string(to_string(phase)); }, "share");
  for (const LayerTime& layer : timing.layers) text += times(layer.place, layer.seconds);
  return text + times("total", total);
}

Json seconds_json(const RunTimes& times) {
  return {{"p50", times.percentile(0.5)},
          {"p95", times.percentile(0.95)},
          {"p99", times.percentile(0.99)},
          {"mean", times.total() / static_cast<double>(times.seconds.size())}};
}

Json timing_json(const Timing& timing, bool generates) {
  const std::string sample = generates ? "token" : "sample";
  Json json = {{generates ? "sequences" : "batch", timing.batch},
               {"seconds", seconds_json(timing.runs)},
               {sample + "s_per_second", samples_of(timing) / timing.runs.total()}};
  if (const auto rate = prompt_rate(timing)) json["prompt_tokens_per_second"] = *rate;
  if (const auto joules = joules_per_sample(timing)) json["joules_per_" + sample] = *joules;
  json["layers"] = Json::array();
  for (const LayerTime& layer : timing.layers) {
    Json row = {{"layer", layer.place}};
    for (const Phase phase : kPhaseColumns)
      row[std::string(to_string(phase)) + "_seconds"] = layer.seconds[phase];
    json["layers"].push_back(std::move(row));
  }
  return json;
}

}  // namespace

std::string measured_text(const std::vector<MeasuredTime>& measured, const std::string& purpose,
                          int64_t iterations) {
  const bool generates = purpose == "generate";
  std::string facts;
  for (const auto& [name, value] : measured[0].facts) facts += fmt::format(", {} {}", name, value);
  std::string text =
      fmt::format("{} on {}{}; made-up input, random weights; {} iterations after {} to warm up\n", purpose,
                  measured[0].device, facts, iterations, kWarmUpRuns);
  text += times_text(measured, generates);
  for (const MeasuredTime& each : measured)
    text += layers_text(each.timing, generates ? "sequences" : "batch");
  return text;
}

std::string measured_json(const std::vector<MeasuredTime>& measured, const std::string& purpose,
                          int64_t iterations) {
  Json report = {{"purpose", purpose},       {"device", measured[0].device}, {"facts", measured[0].facts},
                 {"iterations", iterations}, {"warm_up", kWarmUpRuns},       {"timings", Json::array()}};
  for (const MeasuredTime& each : measured)
    report["timings"].push_back(timing_json(each.timing, purpose == "generate"));
  return report.dump(2, Json::NotUtf8::replace) + "\n";
}

}  // namespace trainer
