// SPDX-License-Identifier: Apache-2.0
#include "core/host/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <climits>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace trainer {

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

double seconds_since_process_start() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 1));  // the name before it may hold anything
  fields.exceptions(std::ios::badbit);                          // if there is no memory
  std::string field;
  constexpr int kBefore = 19;  // fields between the name and the time of the start
  for (int i = 0; i < kBefore; ++i) fields >> field;
  double ticks = 0;
  // Nothing can be read if /proc is not mounted or no further file may be opened: the process has only just
  // begun.
  if (!(fields >> ticks)) return 0;
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  const double since_boot = static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  return since_boot - ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace trainer
