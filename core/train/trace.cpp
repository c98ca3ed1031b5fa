// SPDX-License-Identifier: Apache-2.0
#include "core/train/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/base/json.h"
#include "core/graph/ops/all_reduce.h"
#include "core/storage/atomic_file.h"

// The format is Google's "Trace Event Format": complete events ("X") with begin and duration in microseconds,
// and a metadata event ("M") that names each row.

namespace trainer {

namespace {

/// An operation's details in a viewer: its implementation, and its attributes by name.
Json arguments_of(const std::string& implementation, const std::vector<Attribute>& attributes) {
  Json by_name = Json::object();
  for (const Attribute& attribute : attributes) {
    by_name[attribute.name] = std::visit([](const auto& value) { return Json(value); }, attribute.value);
  }
  return {{"implementation", implementation}, {"attributes", std::move(by_name)}};
}

}  // namespace

void Trace::add_step(int64_t step, double begin, double end) {
  events_.push_back({fmt::format("step {}", step), "step", Row::steps, begin, end});
}

void Trace::add_data_wait(double begin, double end) {
  events_.push_back({"wait for data", "data", Row::data, begin, end});
}

void Trace::add_node(const PlannedNode& planned, double begin, double end) {
  events_.push_back({label_of(planned.node), std::string(to_string(planned.node.phase)), Row::operations,
                     begin, end, planned.choice.implementation, attributes_of(*planned.node.op)});
  if (const auto* start = dynamic_cast<const CollectiveStart*>(planned.node.op.get()))
    travelling_[start->number] = begin;
  if (const auto* done = dynamic_cast<const CollectiveDone*>(planned.node.op.get())) {
    events_.push_back({fmt::format("bucket {}", done->number), "communication", Row::communication,
                       travelling_[done->number], end});
  }
}

void Trace::write() const {
  if (path_.empty()) return;
  constexpr double kMicroseconds = 1e6;
  double start = std::numeric_limits<double>::infinity();  // a step is recorded after its parts
  for (const Event& event : events_) start = std::min(start, event.begin);
  Json list = Json::array();
  for (const auto& [row, name] : {std::pair{Row::steps, "steps"},
                                  {Row::data, "data"},
                                  {Row::operations, "operations"},
                                  {Row::communication, "communication"}}) {
    if (row == Row::communication && travelling_.empty()) continue;
    list.push_back({{"name", "thread_name"},
                    {"ph", "M"},
                    {"pid", 1},
                    {"tid", static_cast<int>(row)},
                    {"args", {{"name", name}}}});
  }
  for (const Event& event : events_) {
    Json entry = {{"name", event.name},
                  {"cat", event.category},
                  {"ph", "X"},
                  {"ts", (event.begin - start) * kMicroseconds},
                  {"dur", (event.end - event.begin) * kMicroseconds},
                  {"pid", 1},
                  {"tid", static_cast<int>(event.row)}};
    if (event.row == Row::operations) entry["args"] = arguments_of(event.implementation, event.attributes);
    list.push_back(std::move(entry));
  }
  const Json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(list)}};
  write_atomically(path_, trace.dump(-1, Json::NotUtf8::replace) + "\n");
}

}  // namespace trainer
