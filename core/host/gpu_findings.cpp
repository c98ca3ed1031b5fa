// SPDX-License-Identifier: Apache-2.0
#include "core/host/gpu_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include "core/base/small_file.h"
#include "core/host/processors.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// A GPU with its number, as messages call it, and its folder of files about its place on the bus.
struct PlacedGpu {
  size_t number;
  std::string bus_id;
  fs::path folder;

  std::string name() const { return fmt::format("GPU {} ({})", number, bus_id); }
};

/// Linux writes hexadecimal digits in lower case, CUDA some in upper case.
std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::optional<int64_t> lanes_in(const fs::path& file) {
  constexpr int64_t kMostLanes = 32;  // Linux writes 255 for a width that it does not know
  const std::optional<int64_t> lanes = read_number(file);
  return lanes && *lanes >= 1 && *lanes <= kMostLanes ? lanes : std::nullopt;
}

/// "16.0 GT/s PCIe" is generation 4.
std::optional<int> generation_in(const fs::path& file) {
  constexpr double kTransfers[] = {2.5, 5, 8, 16, 32, 64};  // 10^9 a second and lane, of generations 1 to 6
  const std::string text = read_small_file(file).value_or("");
  double transfers = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), transfers).ec != std::errc())
    return std::nullopt;
  const auto* const found = std::ranges::find(kTransfers, transfers);
  if (found == std::end(kTransfers)) return std::nullopt;
  return static_cast<int>(found - kTransfers) + 1;
}

void note_width(const PlacedGpu& gpu, std::vector<Finding>& findings) {
  const auto now = lanes_in(gpu.folder / "current_link_width"),
             most = lanes_in(gpu.folder / "max_link_width");
  if (!now || !most || *now >= *most) return;
  findings.push_back(
      {.text = fmt::format("{} is connected by {} of its {} PCIe lanes, so copies to and from it are slower",
                           gpu.name(), *now, *most),
       .mend = fmt::format("reseat the card or its riser, or use a slot with {} lanes; sudo lspci -vv -s {} "
                           "shows them (LnkCap, LnkSta)",
                           *most, gpu.bus_id)});
}

/// A virtual machine's slots are emulated, and say nothing of the real link.
bool is_virtual_machine(const fs::path& root) {
  const std::string info = read_small_file(root / "proc/cpuinfo").value_or("");
  return info.find(" hypervisor") != std::string::npos;
}

void note_generation(const PlacedGpu& gpu, std::vector<Finding>& findings) {
  std::error_code unknown;
  const fs::path device = fs::canonical(gpu.folder, unknown);
  if (unknown) return;
  const auto own = generation_in(device / "max_link_speed"),
             slot = generation_in(device.parent_path() / "max_link_speed");
  if (!own || !slot || *slot >= *own) return;
  findings.push_back(
      {.text = fmt::format("{} has PCIe generation {}, but its slot allows generation {} (an idle GPU lowers "
                           "its link further, which does not count)",
                           gpu.name(), *own, *slot),
       .mend = fmt::format("use a slot of generation {0}, or raise the slot's generation in the firmware's "
                           "setup; sudo lspci -vv shows it (LnkCap)",
                           *own)});
}

void note_node(const PlacedGpu& gpu, const std::vector<int64_t>& processors, const fs::path& root,
               std::vector<Finding>& findings) {
  const std::optional<int64_t> node = read_number(gpu.folder / "numa_node");
  if (!node || *node < 0) return;  // -1: the machine does not say
  const fs::path file = root / "sys/devices/system/node" / fmt::format("node{}", *node) / "cpulist";
  std::string list = read_small_file(file).value_or("");
  list = list.substr(0, list.find('\n'));
  const auto near = parse_processor_list(list);
  if (!near || processors.empty()) return;
  const auto is_near = [&](int64_t number) { return std::ranges::binary_search(*near, number); };
  if (std::ranges::any_of(processors, is_near)) return;
  findings.push_back(
      {.text = fmt::format("{} is on NUMA node {}, but this process may only use processors of other nodes",
                           gpu.name(), *node),
       .mend = fmt::format("start it with taskset -c {}, or in a job with srun --gpu-bind=closest", list)});
}

}  // namespace

std::vector<Finding> gpu_findings(const std::vector<std::string>& bus_ids,
                                  const std::vector<int64_t>& processors, const fs::path& root) {
  std::vector<Finding> findings;
  const bool has_real_slots = !is_virtual_machine(root);
  for (size_t number = 0; number < bus_ids.size(); ++number) {
    const std::string bus_id = lower_case(bus_ids[number]);
    const PlacedGpu gpu{number, bus_id, root / "sys/bus/pci/devices" / bus_id};
    note_width(gpu, findings);
    if (has_real_slots) note_generation(gpu, findings);
    note_node(gpu, processors, root, findings);
  }
  return findings;
}

}  // namespace trainer
