// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/doctor_links.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "apps/trainer/device_models.h"
#include "apps/trainer/devices.h"
#include "apps/trainer/rank_output.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/engine/group_operations.h"
#include "core/host/limits.h"
#include "core/host/process.h"
#include "core/host/processors.h"
#include "core/ranks/placement.h"
#include "core/session/device.h"
#include "core/session/link_times.h"
#include "core/session/membership.h"
#include "core/storage/atomic_file.h"

namespace trainer {
namespace {

/// Any: its group is what counts.
constexpr const char* kRecipe =
    "version: 1\nmodel: {input: [1, 8, 8], layers: [flatten, linear: {out_features: 2}]}\n"
    "data: {format: synthetic}\n";

/// The ranks on each host, which have consecutive numbers.
int64_t ranks_of_host(const std::vector<std::string>& hosts) {
  const auto count = std::ranges::count(hosts, hosts.front());
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const size_t first = rank / static_cast<size_t>(count) * static_cast<size_t>(count);
    if (hosts[rank] != hosts[first] || hosts.size() % static_cast<size_t>(count) != 0) {
      throw Error(
          ExitCode::usage,
          fmt::format("doctor --links needs as many ranks on each host, with consecutive numbers; rank "
                      "{} is on {}, where {} was expected",
                      rank, hosts[rank], hosts[first]));
    }
  }
  return count;
}

Json to_json(const Link& link) {
  return {{"bytesPerSecond", link.bytes}, {"latencySeconds", link.seconds}};
}

std::string line_of(const char* where, const Link& link) {
  return fmt::format("{}: {}/s, {:.1f} us\n", where, human_bytes(static_cast<int64_t>(link.bytes)),
                     1e6 * link.seconds);
}

struct Measured {
  std::optional<LinkTimes> within, among;
};

Json description_of(const Measured& found, const std::string& device, int64_t on_host) {
  // Ranks that are alone on their hosts have no link within; that among them stands for it.
  const LinkTimes within = found.within ? *found.within : *found.among;
  Json json{{"name", host_name()}, {"device", device}, {"devicesPerNode", on_host}};
  json["withinNode"] = to_json(within.link);
  Json sources = Json::object();
  const std::string source =
      fmt::format("trainer doctor --links, {:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  for (const char* key : {"withinNode.bytesPerSecond", "withinNode.latencySeconds", "linkShare"})
    sources[key] = source;
  if (found.among) {
    json["amongNodes"] = to_json(found.among->link);
    for (const char* key : {"amongNodes.bytesPerSecond", "amongNodes.latencySeconds"}) sources[key] = source;
  }
  json["linkShare"] = 1;  // of rates that sums have reached
  if (const auto bytes = within.processor_bytes) {
    json["processorBytesPerSecond"] = *bytes;
    sources["processorBytesPerSecond"] = source;
  }
  if (device == "cpu") {
    json["nodeBytes"] = memory_limit(1).value;
    sources["nodeBytes"] = source;
  }
  json["sources"] = sources;
  return json;
}

void measure(const RunSpec& spec, const Membership& membership, const std::string& file,
             const std::string& gpu) {
  ProcessGroup& group = membership.group();
  DeviceChoice choice = choose_device(spec.recipe().device);
  choice.threads = threads_of(spec.recipe().device, spec.ranks_on_host());
  choice.local_rank = membership.local_rank();
  membership.require_device(choice.type, broadcast_from_rank_0(group, [&] { return choice.type; }));
  Tuning tuning;
  const Backend backend = open_device(spec, tuning, choice, Use::train, &group);
  const int64_t on_host = ranks_of_host(all_gather(group, host_name())), hosts = group.size() / on_host;
  group.arrange({.replicas = hosts, .shards = on_host});
  backend.device->join_ranks();
  Measured found;
  if (on_host > 1) found.within = measure_links(group, backend, Axis::shards);
  if (hosts > 1) found.among = measure_links(group, backend, Axis::replicas, on_host);
  run_on_all(group, [&] {
    if (!membership.is_rank_0()) return;
    const std::string device = choice.type == "cuda" ? described_as(gpu).value_or(gpu) : choice.type;
    write_atomically(file, description_of(found, device, on_host).dump(2) + "\n");
  });
  if (!membership.is_rank_0()) return;
  std::string text;
  if (found.within) text += line_of("within a node", found.within->link);
  if (found.among) text += line_of("of a node to others", found.among->link);
  if (const auto& within = found.within; within && within->processor_bytes)
    text += fmt::format("a rank's processor moves and adds {}/s, and computes nothing meanwhile\n",
                        human_bytes(static_cast<int64_t>(*within->processor_bytes)));
  print_to_output(
      text + fmt::format("wrote {}: use it as trainer plan --machine {}\n", one_line(file), one_line(file)));
}

}  // namespace

void write_links(const std::string& file, const std::string& gpu) {
  const RankIdentity identity = launched_as();
  if (identity.is_alone()) {
    throw Error(
        ExitCode::usage,
        fmt::format("doctor --links measures between ranks; start two or more, as in mpirun -n 2 trainer "
                    "doctor --links {}",
                    one_line(file)));
  }
  const auto recipe = Recipe::parse(kRecipe, "doctor --links",
                                    {fmt::format("training.global_batch_size={}", identity.ranks)});
  bind_to_share(identity.local_rank, identity.local_ranks);
  const RunSpec spec = launched_spec(recipe, identity);
  const Membership membership(spec, identity, false);
  run_as_rank(membership, [&] {
    measure(spec, membership, file, gpu);
    return 0;
  });
}

}  // namespace trainer
