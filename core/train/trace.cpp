// SPDX-License-Identifier: Apache-2.0
#include "core/train/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/base/json.h"
#include "core/engine/group_operations.h"
#include "core/graph/ops/all_reduce.h"
#include "core/host/process.h"
#include "core/storage/atomic_file.h"

// The format is Google's "Trace Event Format": complete events ("X") with begin and duration in microseconds,
// and a metadata event ("M") that names each row.

namespace trainer {

namespace {

/// More would take long to travel, and no viewer shows them.
constexpr int64_t kMostRanks = 16;

/// An operation's details in a viewer: its implementation, its work, and its attributes by name.
Json arguments_of(const std::string& implementation, const NodeWork& work,
                  const std::vector<Attribute>& attributes) {
  Json by_name = Json::object();
  for (const Attribute& attribute : attributes) {
    by_name[attribute.name] = std::visit([](const auto& value) { return Json(value); }, attribute.value);
  }
  return {{"implementation", implementation},
          {"bytes", work.bytes},
          {"flops", work.flops},
          {"attributes", std::move(by_name)}};
}

}  // namespace

void Trace::add_step(int64_t step, double begin, double end) {
  events_.push_back({fmt::format("step {}", step), "step", Row::steps, begin, end});
}

void Trace::add_data_wait(double begin, double end) {
  events_.push_back({"wait for data", "data", Row::data, begin, end});
}

void Trace::add_node(const Plan& plan, const PlannedNode& planned, double begin, double end) {
  events_.push_back({label_of(planned.node), std::string(to_string(planned.node.phase)), Row::operations,
                     begin, end, planned.choice.implementation, work_of(plan, planned),
                     attributes_of(*planned.node.op)});
  if (const auto* start = dynamic_cast<const CollectiveStart*>(planned.node.op.get()))
    travelling_[start->number] = begin;
  if (const auto* done = dynamic_cast<const CollectiveDone*>(planned.node.op.get())) {
    events_.push_back({fmt::format("bucket {}", done->number), "communication", Row::communication,
                       travelling_[done->number], end});
  }
}

/// Of one rank, with times in microseconds from `origin` on.
Json Trace::events_of(int64_t rank, double origin) const {
  constexpr double kMicroseconds = 1e6;
  Json list = Json::array();
  const auto name_it = [&](const char* what, int row, const std::string& name) {
    list.push_back({{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", row}, {"args", {{"name", name}}}});
  };
  name_it("process_name", 0, fmt::format("rank {}", rank));
  for (const auto& [row, name] : {std::pair{Row::steps, "steps"},
                                  {Row::data, "data"},
                                  {Row::operations, "operations"},
                                  {Row::communication, "communication"}}) {
    if (row != Row::communication || !travelling_.empty())
      name_it("thread_name", static_cast<int>(row), name);
  }
  for (const Event& event : events_) {
    Json entry = {{"name", event.name},
                  {"cat", event.category},
                  {"ph", "X"},
                  {"ts", (event.begin - origin) * kMicroseconds},
                  {"dur", (event.end - event.begin) * kMicroseconds},
                  {"pid", rank},
                  {"tid", static_cast<int>(event.row)}};
    if (event.row == Row::operations)
      entry["args"] = arguments_of(event.implementation, event.work, event.attributes);
    list.push_back(std::move(entry));
  }
  return list;
}

/// Hosts have clocks of their own: all ranks count from a moment at which they meet.
void Trace::write(ProcessGroup& group) const {
  double start = std::numeric_limits<double>::infinity();  // a step is recorded after its parts
  for (const Event& event : events_) start = std::min(start, event.begin);
  barrier(group);
  const double now = steady_seconds();
  std::vector<double> behind(static_cast<size_t>(group.size()), 0);
  behind[static_cast<size_t>(group.rank())] = events_.empty() ? 0 : now - start;
  group.all_reduce(behind);
  const double origin = now - std::ranges::max(behind);
  std::string all;
  for (int64_t rank = 0; rank < std::min(group.size(), kMostRanks); ++rank) {
    std::string text;
    if (rank == group.rank()) text = events_of(rank, origin).dump(-1, Json::NotUtf8::replace);
    broadcast_text(group, text, rank);
    if (path_.empty()) continue;
    all += (rank == 0 ? "" : ",") + text.substr(1, text.size() - 2);  // without the list's brackets
  }
  if (!path_.empty()) write_atomically(path_, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[" + all + "]}\n");
}

}  // namespace trainer
