// SPDX-License-Identifier: Apache-2.0
#include "core/host/processors.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string>

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

int64_t physical_cores(const std::vector<int64_t>& processors, const fs::path& root) {
  std::vector<bool> is_counted(kMostProcessors);
  int64_t cores = 0;
  for (const int64_t number : processors) {
    if (is_counted.at(static_cast<size_t>(number))) continue;
    ++cores;
    const fs::path topology = root / "sys/devices/system/cpu" / ("cpu" + std::to_string(number)) / "topology";
    const auto siblings = parse_processor_list(line_of_list(topology / "thread_siblings_list"));
    for (const int64_t sibling : siblings.value_or(std::vector<int64_t>()))
      is_counted[static_cast<size_t>(sibling)] = true;
    is_counted[static_cast<size_t>(number)] = true;
  }
  return cores;
}

}  // namespace trainer
