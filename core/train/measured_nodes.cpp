// SPDX-License-Identifier: Apache-2.0
#include "core/train/measured_nodes.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/train/trace.h"

namespace trainer {
namespace {

[[noreturn]] void refuse_trace(const std::filesystem::path& file, const std::string& problem) {
  throw Error(ExitCode::data,
              fmt::format("{}: {}; train with --profile N to write one", one_line(file.string()), problem));
}

double number(const Json& object, const char* key) {
  const Json* value = object.find(key);
  return value != nullptr && value->is_number() && value->number() >= 0 ? value->number() : 0;
}

std::string text(const Json& object, const char* key) {
  const Json* value = object.find(key);
  return value != nullptr && value->is_text() ? value->text() : "";
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// How many times the measured one's work a node has.
double work_ratio(const NodeWork& work, const NodeWork& measured) {
  if (work.flops > 0 && measured.flops > 0) return work.flops / measured.flops;
  return measured.bytes > 0 ? work.bytes / measured.bytes : 1;
}

}  // namespace

MeasuredNodes::MeasuredNodes(const std::filesystem::path& trace) {
  const std::optional<Json> profile = Json::parse(read_input(trace));
  const Json* events = profile && profile->is_object() ? profile->find("traceEvents") : nullptr;
  if (events == nullptr || !events->is_array()) refuse_trace(trace, "it is not a profile");
  size_t step = 0;
  double all_seconds = 0, all_bytes = 0;
  for (const Json& event : events->items()) {
    if (!event.is_object() || text(event, "ph") != "X" || number(event, "pid") != 0) continue;
    if (number(event, "tid") == static_cast<double>(Trace::Row::steps)) ++step;  // written after its nodes
    if (number(event, "tid") != static_cast<double>(Trace::Row::operations)) continue;
    const Json* details = event.find("args");
    if (details == nullptr || !details->is_object() || details->find("bytes") == nullptr)
      refuse_trace(trace, "its operations have no bytes: an older release wrote it");
    const Measurement found{.seconds = number(event, "dur") / 1e6,
                            .work = {.bytes = number(*details, "bytes"), .flops = number(*details, "flops")}};
    std::vector<std::vector<Measurement>>& steps = steps_[{text(event, "name"), text(event, "cat")}];
    if (steps.size() <= step) steps.resize(step + 1);
    steps[step].push_back(found);
    all_seconds += found.seconds;
    all_bytes += found.work.bytes;
  }
  if (steps_.empty()) refuse_trace(trace, "it has no operations of rank 0");
  for (auto& [key, steps] : steps_) std::erase_if(steps, [](const auto& each) { return each.empty(); });
  seconds_per_byte_ = all_bytes > 0 ? all_seconds / all_bytes : 0;
}

const std::vector<std::vector<MeasuredNodes::Measurement>>* MeasuredNodes::find(const Node& node) const {
  const auto found = steps_.find({label_of(node), std::string(to_string(node.phase))});
  return found == steps_.end() ? nullptr : &found->second;
}

double MeasuredNodes::seconds(const Node& node, const NodeWork& work, size_t place, size_t count) const {
  const auto* steps = find(node);
  if (steps == nullptr) return seconds_per_byte_ * work.bytes;
  std::vector<double> seconds;
  for (const std::vector<Measurement>& step : *steps) {
    // The same nodes again in each micro-batch, or other numbers of nodes: then those at the same share.
    const size_t in_step = step.size();
    if (in_step % count == 0) {
      for (size_t i = place; i < in_step; i += count)
        seconds.push_back(step[i].seconds * work_ratio(work, step[i].work));
    } else {
      const Measurement& nearest = step[place * in_step / count];
      seconds.push_back(nearest.seconds * work_ratio(work, nearest.work));
    }
  }
  return median(seconds);
}

}  // namespace trainer
