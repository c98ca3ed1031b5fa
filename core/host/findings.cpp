// SPDX-License-Identifier: Apache-2.0
#include "core/host/findings.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "core/base/file.h"
#include "core/base/small_file.h"
#include "core/base/units.h"
#include "core/host/process.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

std::string word_in(const fs::path& file) {
  const std::string text = read_small_file(file).value_or("");
  return text.substr(0, text.find('\n'));
}

/// The drivers of newer Intel and AMD processors raise the clock under load with this governor, too.
void note_governor(const fs::path& root, std::vector<Finding>& findings) {
  const fs::path folder = root / "sys/devices/system/cpu/cpu0/cpufreq";
  const std::string driver = word_in(folder / "scaling_driver");
  if (word_in(folder / "scaling_governor") != "powersave" || driver == "intel_pstate" ||
      driver.starts_with("amd-pstate"))
    return;
  findings.push_back(
      {.text = fmt::format("the processors stay at their lowest clock (governor powersave of {})",
                           driver.empty() ? "an unknown driver" : driver),
       .mend = "sudo cpupower frequency-set -g performance"});
}

void note_limits(const HostFacts& facts, std::vector<Finding>& findings) {
  if (facts.cgroup.memory && *facts.cgroup.memory < facts.memory)
    findings.push_back(
        {.text = fmt::format("a control group allows {} of this machine's {} of memory",
                             human_bytes(*facts.cgroup.memory), human_bytes(facts.memory)),
         .mend = "ask for more: docker run --memory, resources.limits.memory of a pod, sbatch --mem"});
  const auto cores = static_cast<double>(facts.allowed_cores);
  if (facts.cgroup.cpus && *facts.cgroup.cpus < cores)
    findings.push_back({.text = fmt::format("a control group allows {:.3g} of {} cores ({})",
                                            *facts.cgroup.cpus, facts.allowed_cores, facts.cgroup.cpus_file),
                        .mend = "ask for more: docker run --cpus, resources.limits.cpu of a pod",
                        .cost = 1 - *facts.cgroup.cpus / cores});
  if (facts.allowed_cores < facts.cores)
    findings.push_back({.text = fmt::format("this process may use {} of {} cores (affinity)",
                                            facts.allowed_cores, facts.cores),
                        .mend = "start it without taskset, or with more CPUs: srun --cpus-per-task",
                        .cost = 1 - cores / static_cast<double>(facts.cores)});
}

}  // namespace

std::vector<Finding> machine_findings(const HostFacts& facts, const fs::path& root) {
  std::vector<Finding> findings;
  note_governor(root, findings);
  note_limits(facts, findings);
  return findings;
}

FolderSpeed measure_folder(const fs::path& folder, int64_t bytes) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) throw io_error(folder, "statvfs", errno);
  FolderSpeed speed{.bytes = static_cast<double>(bytes),
                    .free_bytes = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize)};
  const FileDescriptor file = open_nameless_file(folder);
  if (speed.free_bytes < 2 * speed.bytes) return speed;  // nothing is filled up for a measurement
  const std::string piece(size_t{1} << 20, '\x5a');
  const double began = steady_seconds();
  for (int64_t written = 0; written < bytes; written += static_cast<int64_t>(piece.size())) {
    if (const int error = write_all(file.get(), piece); error != 0) throw io_error(folder, "write", error);
  }
  if (::fsync(file.get()) != 0) throw io_error(folder, "fsync", errno);
  speed.seconds = steady_seconds() - began;
  return speed;
}

std::vector<Finding> folder_findings(const fs::path& folder, const FolderSpeed& speed) {
  constexpr double kLeastFree = 2.0 * (int64_t{1} << 30), kLeastRate = 50e6;
  const std::string name = folder == "." ? "the working directory" : folder.string();
  std::vector<Finding> findings;
  if (speed.free_bytes < kLeastFree)
    findings.push_back({.text = fmt::format("the disk of {} has {} left", name,
                                            human_bytes(static_cast<int64_t>(speed.free_bytes))),
                        .mend = "make room, or choose another disk with run.output_dir"});
  if (speed.seconds > 0 && speed.bytes / speed.seconds < kLeastRate)
    findings.push_back({.text = fmt::format("{} takes {:.3g} MB/s when files are synced, as checkpoints are",
                                            name, speed.bytes / speed.seconds * 1e-6),
                        .mend = "choose a faster disk with run.output_dir, or a longer checkpoint.interval"});
  return findings;
}

void sort_worst_first(std::vector<Finding>& findings) {
  std::ranges::stable_sort(findings, [](const Finding& a, const Finding& b) { return a.cost > b.cost; });
}

}  // namespace trainer
