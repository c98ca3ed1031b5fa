// SPDX-License-Identifier: Apache-2.0
#include "core/engine/machine_description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"

namespace trainer {
namespace {

/// Bounds far from every machine's, so that no quotient of them overflows.
struct Range {
  double least, most;
};
constexpr Range kBytesPerSecond{1e3, 1e18}, kLatency{0, 10}, kNodeWatts{1, 1e7}, kNodeBytes{1e6, 1e15},
    kShare{0.01, 1};
constexpr double kMostDevices = 65536;

/// One object of the file, whose keys have a prefix in messages and in `sources`.
class SourcedObject {
 public:
  SourcedObject(const Json& object, const Json& sources, std::string prefix, const std::string& file)
      : object_(object), sources_(sources), prefix_(std::move(prefix)), file_(file) {}

  [[noreturn]] void refuse(const std::string& key, const std::string& problem) const {
    throw Error(ExitCode::recipe,
                fmt::format("{}: {}{}: {}; the files in configs/machines/ show all keys, and `trainer doctor "
                            "--links FILE` writes one",
                            file_, prefix_, key, problem));
  }

  double number(const char* key, const Range& range) const {
    const Json* value = object_.find(key);
    if (value == nullptr || !value->is_number() || !(value->number() >= range.least) ||
        !(value->number() <= range.most)) {
      refuse(key, fmt::format("expected a number from {:g} to {:g}, got {}", range.least, range.most,
                              value == nullptr ? "nothing" : value->dump()));
    }
    return value->number();
  }

  /// A number whose origin is given.
  double sourced(const char* key, const Range& range) const {
    const double value = number(key, range);
    const std::string name = prefix_ + key;
    const Json* source = sources_.is_object() ? sources_.find(name) : nullptr;
    if (source == nullptr || !source->is_text() || source->text().empty())
      refuse(key, fmt::format("it has no source; write where it is from as sources[\"{}\"]", name));
    return value;
  }

  std::optional<double> optional(const char* key, const Range& range) const {
    return object_.find(key) == nullptr ? std::nullopt : std::optional(sourced(key, range));
  }

  std::string text(const char* key) const {
    const Json* value = object_.find(key);
    if (value == nullptr || !value->is_text() || value->text().empty())
      refuse(key, fmt::format("expected a text, got {}", value == nullptr ? "nothing" : value->dump()));
    return value->text();
  }

  void require_known(const std::vector<std::string_view>& keys) const {
    for (const auto& [key, value] : object_.members()) {
      if (std::ranges::find(keys, key) == keys.end())
        refuse(key, fmt::format("unknown key; known are {}", fmt::join(keys, ", ")));
    }
  }

 private:
  const Json& object_;
  const Json& sources_;
  std::string prefix_;
  const std::string& file_;
};

Link read_link(const Json& machine, const Json& sources, const char* key, const SourcedObject& whole,
               const std::string& file) {
  const Json* object = machine.find(key);
  if (object == nullptr || !object->is_object())
    whole.refuse(key, R"(expected {"bytesPerSecond": …, "latencySeconds": …})");
  const SourcedObject part(*object, sources, fmt::format("{}.", key), file);
  part.require_known({"bytesPerSecond", "latencySeconds"});
  return {.bytes = part.sourced("bytesPerSecond", kBytesPerSecond),
          .seconds = part.sourced("latencySeconds", kLatency)};
}

}  // namespace

MachineDescription read_machine_description(const std::string& text, const std::string& file) {
  std::string problem;
  const Json machine = Json::parse(text, &problem).value_or(Json());
  if (!machine.is_object()) {
    throw Error(ExitCode::recipe,
                fmt::format("{}: not a machine: expected a JSON object{}{}; see configs/machines/", file,
                            problem.empty() ? "" : ", ", problem));
  }
  const Json* given = machine.find("sources");
  const Json sources = given == nullptr ? Json::object() : *given;
  const SourcedObject part(machine, sources, "", file);
  part.require_known({"name", "device", "devicesPerNode", "withinNode", "amongNodes", "sumsInNetwork",
                      "linkShare", "processorBytesPerSecond", "nodeBytes", "nodeWatts", "sources"});
  MachineDescription found{.name = part.text("name"), .device = part.text("device")};
  const double devices = part.number("devicesPerNode", {1, kMostDevices});
  found.devices_of_node = static_cast<int64_t>(devices);
  if (static_cast<double>(found.devices_of_node) != devices)
    part.refuse("devicesPerNode", "expected a whole number");
  found.within = read_link(machine, sources, "withinNode", part, file);
  if (machine.find("amongNodes") != nullptr)
    found.among = read_link(machine, sources, "amongNodes", part, file);
  if (const Json* sums = machine.find("sumsInNetwork")) {
    if (!sums->is_boolean()) part.refuse("sumsInNetwork", "expected true or false, got " + sums->dump());
    found.sums_in_network = sums->boolean();
  }
  found.link_share = part.optional("linkShare", kShare).value_or(kLinkShare);
  found.processor_bytes = part.optional("processorBytesPerSecond", kBytesPerSecond);
  if (const auto bytes = part.optional("nodeBytes", kNodeBytes))
    found.node_bytes = static_cast<int64_t>(*bytes);
  found.node_watts = part.optional("nodeWatts", kNodeWatts);
  return found;
}

}  // namespace trainer
