// SPDX-License-Identifier: Apache-2.0
#include "cpu/monitor.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/base/small_file.h"

namespace trainer::cpu {
namespace {

namespace fs = std::filesystem;

/// If OpenMP binds threads, it has left this one a single processor since the program began: then all count.
std::vector<int> allowed_processors() {
  cpu_set_t set;
  std::vector<int> allowed;
  for (const char* variable : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"}) {
    if (std::getenv(variable) == nullptr) continue;
    for (int i = 0; i < ::sysconf(_SC_NPROCESSORS_ONLN); ++i) allowed.push_back(i);
    return allowed;
  }
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return allowed;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) allowed.push_back(i);
  }
  return allowed;
}

double seconds_in(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

/// The sum of the numbers in files; nothing if one has none.
std::optional<double> sum_of(const std::vector<fs::path>& files) {
  if (files.empty()) return std::nullopt;
  double sum = 0;
  for (const fs::path& file : files) {
    const auto number = read_number(file);
    if (!number) return std::nullopt;
    sum += static_cast<double>(*number);
  }
  return sum;
}

/// The number after a word, as in "read_bytes: 4096".
std::optional<double> number_after(const std::string& text, const std::string& word) {
  const size_t at = text.find(word);
  if (at == std::string::npos) return std::nullopt;
  const size_t begin = text.find_first_not_of(' ', at + word.size());
  if (begin == std::string::npos) return std::nullopt;
  const auto number = whole_number(text.substr(begin, text.find('\n', begin) - begin));
  if (!number) return std::nullopt;
  return static_cast<double>(*number);
}

std::optional<double> share(const std::optional<double>& before, const std::optional<double>& now,
                            double time) {
  if (!before || !now) return std::nullopt;
  return std::clamp((*now - *before) / time, 0.0, 1.0);
}

}  // namespace

Monitor::Monitor(int threads, const fs::path& root)
    : threads_(std::max(1, threads)),
      root_(root),
      processors_(allowed_processors()),
      sensors_(find_sensors(root, processors_)),
      last_energies_(sensors_.energies.size()) {}

/// Seconds in which some process waited.
std::optional<double> Monitor::pressure(const char* kind) const {
  const auto text = read_small_file(root_ / "proc/pressure" / kind);
  const auto micros = text ? number_after(text->substr(0, text->find('\n')), "total=") : std::nullopt;
  return micros ? std::optional(*micros * 1e-6) : std::nullopt;
}

Monitor::Sums Monitor::sums(double now) const {
  Sums sums{.at = now};
  if (const auto text = read_small_file(root_ / "proc/stat"))
    sums.processors = processor_seconds(*text, processors_, static_cast<double>(::sysconf(_SC_CLK_TCK)));
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  sums.own = seconds_in(use.ru_utime) + seconds_in(use.ru_stime);
  sums.cpu_pressure = pressure("cpu");
  sums.memory_pressure = pressure("memory");
  sums.io_pressure = pressure("io");
  sums.throttles = sum_of(sensors_.throttles);
  return sums;
}

/// Joules of all sockets since the first reading. A counter that has become smaller began again at 0.
std::optional<double> Monitor::energy() {
  if (sensors_.energies.empty()) return std::nullopt;
  for (size_t i = 0; i < sensors_.energies.size(); ++i) {
    const fs::path& file = sensors_.energies[i];
    const auto micros = read_number(file);
    if (!micros || *micros < 0) return std::nullopt;
    const double now = static_cast<double>(*micros) * 1e-6;
    const double before = last_energies_[i].value_or(now);
    const bool wrapped = now < before;
    const auto range = wrapped ? read_number(file.parent_path() / "max_energy_range_uj") : std::nullopt;
    joules_ += std::max(0.0, now - before + static_cast<double>(range.value_or(0)) * 1e-6);
    last_energies_[i] = now;
  }
  return joules_;
}

void Monitor::read_use(const Sums& before, const Sums& now, DeviceReading& reading) const {
  const double time = now.at - before.at, own = now.own - before.own;
  ProcessorUse use{.seconds = time, .own = own, .processors = static_cast<double>(processors_.size())};
  reading.utilization = utilization(use, threads_);
  if (before.processors && now.processors) {
    use.others = std::max(0.0, now.processors->busy - before.processors->busy - own);
    reading.stolen = stolen(use, threads_);
  }
  reading.cpu_pressure = share(before.cpu_pressure, now.cpu_pressure, time);
  reading.memory_pressure = share(before.memory_pressure, now.memory_pressure, time);
  reading.io_pressure = share(before.io_pressure, now.io_pressure, time);
  if (before.throttles && now.throttles && *now.throttles > *before.throttles)
    reading.throttled_by.emplace_back("temperature");
}

void Monitor::read_sensors(DeviceReading& reading) {
  for (const fs::path& file : sensors_.temperatures) {
    constexpr double kLeast = -100, kMost = 200;  // what is beyond is no temperature
    const auto thousandths = read_number(file);
    const double degrees = static_cast<double>(thousandths.value_or(0)) * 1e-3;
    if (!thousandths || degrees < kLeast || degrees > kMost) continue;
    reading.temperature_c = std::max(degrees, reading.temperature_c.value_or(degrees));
  }
  if (const auto khz = sum_of(sensors_.clocks))
    reading.clock_mhz = *khz * 1e-3 / static_cast<double>(sensors_.clocks.size());
  // The slowest core sets the pace of all.
  for (const fs::path& file : sensors_.throttled) {
    if (const auto ms = read_number(file))
      reading.throttled_s = std::max(static_cast<double>(*ms) * 1e-3, reading.throttled_s.value_or(0));
  }
  reading.corrected_errors = sum_of(sensors_.corrected);
  reading.uncorrected_errors = sum_of(sensors_.uncorrected);
  if (const auto text = read_small_file(root_ / "proc/self/io"))
    reading.read_bytes = number_after(*text, "\nread_bytes:");
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  reading.major_faults = static_cast<double>(use.ru_majflt);
}

DeviceReading Monitor::read(double now) {
  constexpr double kLeastSeconds = 1;
  DeviceReading reading;
  if (last_ && now - last_->at < kLeastSeconds) return reading;
  const Sums sums = this->sums(now);
  const double joules = joules_;
  reading.energy_j = energy();
  read_sensors(reading);
  if (last_) {
    read_use(*last_, sums, reading);
    if (reading.energy_j) reading.power_w = (*reading.energy_j - joules) / (now - last_->at);
  }
  last_ = sums;
  return reading;
}

}  // namespace trainer::cpu
