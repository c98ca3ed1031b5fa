// SPDX-License-Identifier: Apache-2.0
#include "core/host/processors.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <utility>

#include "core/base/small_file.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

std::string line_of_list(const fs::path& file) {
  const std::string text = read_small_file(file).value_or("");
  return text.substr(0, text.find('\n'));
}

/// Removes and returns the number that `text` begins with.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t value = 0;
  const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || value < 0 || value >= kMostProcessors) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(stop - text.data()));
  return value;
}

bool take(std::string_view& text, char mark) {
  if (!text.starts_with(mark)) return false;
  text.remove_prefix(1);
  return true;
}

/// Whether OpenMP may have bound this thread before main began.
bool may_be_bound() {
  const char* bind = std::getenv("OMP_PROC_BIND");
  if (bind != nullptr && std::string_view(bind) != "false" && std::string_view(bind) != "FALSE") return true;
  for (const char* name : {"OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

/// A bit for each processor, as Linux fills it.
struct ProcessorSet {
  cpu_set_t bits[kMostProcessors / CPU_SETSIZE] = {};
};

/// By a system call without checks, since sanitizers have not started when the first set is read.
__attribute__((no_sanitize("address", "thread", "undefined"))) bool read_affinity(ProcessorSet& into) {
  return ::syscall(SYS_sched_getaffinity, 0, sizeof into.bits, into.bits) > 0;
}

/// What the process may use, until OpenMP binds its first thread.
constinit ProcessorSet at_start;

__attribute__((no_sanitize("address", "thread", "undefined"))) void remember_start() {
  read_affinity(at_start);
}

/// Runs before any library starts: no other moment is early enough.
__attribute__((section(".preinit_array"), used)) void (*const kRememberStart)() = remember_start;

std::vector<int64_t> numbers_in(const ProcessorSet& set) {
  std::vector<int64_t> numbers;
  for (int64_t number = 0; number < kMostProcessors; ++number) {
    if (CPU_ISSET_S(static_cast<size_t>(number), sizeof set.bits, set.bits)) numbers.push_back(number);
  }
  return numbers;
}

/// The processors by physical cores, each rising.
std::vector<std::vector<int64_t>> cores_of(const std::vector<int64_t>& processors, const fs::path& root) {
  std::vector<bool> is_counted(kMostProcessors), is_asked(kMostProcessors);
  for (const int64_t number : processors) is_asked.at(static_cast<size_t>(number)) = true;
  std::vector<std::vector<int64_t>> cores;
  for (const int64_t number : processors) {
    if (is_counted.at(static_cast<size_t>(number))) continue;
    std::vector<int64_t> core = {number};
    const fs::path topology = root / "sys/devices/system/cpu" / ("cpu" + std::to_string(number)) / "topology";
    const auto siblings = parse_processor_list(line_of_list(topology / "thread_siblings_list"));
    for (const int64_t sibling : siblings.value_or(std::vector<int64_t>())) {
      is_counted[static_cast<size_t>(sibling)] = true;
      if (sibling != number && is_asked[static_cast<size_t>(sibling)]) core.push_back(sibling);
    }
    is_counted[static_cast<size_t>(number)] = true;
    std::ranges::sort(core);
    cores.push_back(std::move(core));
  }
  return cores;
}

/// The NUMA nodes of the machine, rising, with their processors.
std::vector<std::pair<int64_t, std::vector<int64_t>>> numa_nodes(const fs::path& root) {
  const fs::path folder = root / "sys/devices/system/node";
  std::vector<std::pair<int64_t, std::vector<int64_t>>> nodes;
  for (const int64_t node :
       parse_processor_list(line_of_list(folder / "online")).value_or(std::vector<int64_t>())) {
    const auto own = parse_processor_list(line_of_list(folder / ("node" + std::to_string(node)) / "cpulist"));
    if (own) nodes.emplace_back(node, *own);
  }
  return nodes;
}

}  // namespace

std::optional<std::vector<int64_t>> parse_processor_list(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  std::vector<int64_t> numbers;
  do {
    const std::optional<int64_t> first = take_number(text);
    const std::optional<int64_t> last = take(text, '-') ? take_number(text) : first;
    if (!first || !last || *last < *first || (!numbers.empty() && *first <= numbers.back()))
      return std::nullopt;
    for (int64_t number = *first; number <= *last; ++number) numbers.push_back(number);
  } while (take(text, ','));
  if (!text.empty()) return std::nullopt;
  return numbers;
}

std::vector<int64_t> online_processors(const fs::path& root) {
  return parse_processor_list(line_of_list(root / "sys/devices/system/cpu/online"))
      .value_or(std::vector<int64_t>());
}

std::vector<int64_t> allowed_processors() {
  if (may_be_bound()) return numbers_in(at_start);
  ProcessorSet now;
  read_affinity(now);
  return numbers_in(now);
}

bool is_bound_since_start() {
  ProcessorSet now;
  return read_affinity(now) && numbers_in(now).size() < numbers_in(at_start).size();
}

std::string processor_list_text(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t begin = 0; begin < numbers.size();) {
    size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ",";
    text += std::to_string(numbers[begin]);
    if (end - begin > 1) text += "-" + std::to_string(numbers[end - 1]);
    begin = end;
  }
  return text;
}

int64_t physical_cores(const std::vector<int64_t>& processors, const fs::path& root) {
  return std::ssize(cores_of(processors, root));
}

std::vector<int64_t> numa_nodes_of(const std::vector<int64_t>& processors, const fs::path& root) {
  std::vector<int64_t> nodes;
  for (const auto& node : numa_nodes(root)) {
    const bool has_any = std::ranges::any_of(
        processors, [&](int64_t number) { return std::ranges::binary_search(node.second, number); });
    if (has_any) nodes.push_back(node.first);
  }
  return nodes;
}

std::vector<int64_t> allowed_memory_nodes(const fs::path& root) {
  constexpr std::string_view kName = "\nMems_allowed_list:\t";
  const std::string text = read_small_file(root / "proc/self/status").value_or("");
  const size_t place = text.find(kName);
  if (place == std::string::npos) return {};
  const std::string_view line = std::string_view(text).substr(place + kName.size());
  return parse_processor_list(line.substr(0, line.find('\n'))).value_or(std::vector<int64_t>());
}

std::vector<int64_t> share_of_processors(const std::vector<int64_t>& processors, int64_t place,
                                         int64_t processes, const fs::path& root) {
  // In the order of the nodes: an even division then has no node in two shares that could be in one.
  std::vector<std::vector<int64_t>> cores = cores_of(processors, root);
  const auto nodes = numa_nodes(root);
  const auto node_of = [&](const std::vector<int64_t>& core) {
    return std::ranges::find_if(
               nodes,
               [&](const auto& node) { return std::ranges::binary_search(node.second, core.front()); }) -
           nodes.begin();
  };
  std::ranges::stable_sort(cores, {}, node_of);
  const int64_t each = std::ssize(cores) / processes;
  if (each == 0) return processors;
  std::vector<int64_t> share;
  for (int64_t i = place * each; i < (place + 1) * each; ++i) {
    const std::vector<int64_t>& core = cores[static_cast<size_t>(i)];
    share.insert(share.end(), core.begin(), core.end());
  }
  std::ranges::sort(share);
  return share;
}

std::optional<std::string> bind_to_share(int64_t place, int64_t processes) {
  const std::vector<int64_t> allowed = allowed_processors();
  const bool is_bound = allowed.size() < online_processors().size();
  if (processes == 1 || is_bound || may_be_bound() || numa_nodes_of(allowed).size() < 2) return std::nullopt;
  const std::vector<int64_t> share = share_of_processors(allowed, place, processes);
  ProcessorSet set;
  for (const int64_t number : share) CPU_SET_S(static_cast<size_t>(number), sizeof set.bits, set.bits);
  ::sched_setaffinity(0, sizeof set.bits, set.bits);
  const std::vector<int64_t> now = allowed_processors();
  if (now == share) return std::nullopt;
  return "this rank cannot be bound to the processors " + processor_list_text(share) +
         ": the system gives it " + processor_list_text(now);
}

}  // namespace trainer
