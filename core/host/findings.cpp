// SPDX-License-Identifier: Apache-2.0
#include "core/host/findings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <system_error>

#include "core/base/directory.h"
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

/// A training step took 1.03 times as long without them: ResNet-18, 32x32, batch 128, AVX-512, medians of
/// four turns (1.00 to 1.04).
void note_huge_pages(const fs::path& root, std::vector<Finding>& findings) {
  const fs::path setting = root / "sys/kernel/mm/transparent_hugepage/enabled";
  if (word_in(setting).find("[never]") == std::string::npos) return;
  findings.push_back({.text = "transparent huge pages are off, which large tensors of a CPU gain from",
                      .mend = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
                      .cost = 0.03});
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

/// Whether this process may lock any amount of memory, whatever its limit is. True if that is unknown.
bool may_lock_all(const fs::path& root) {
  constexpr int kLockCapability = 14;  // CAP_IPC_LOCK of linux/capability.h
  const std::string status = read_small_file(root / "proc/self/status").value_or("");
  constexpr std::string_view kKey = "\nCapEff:\t";
  const size_t key = status.find(kKey);
  if (key == std::string::npos) return true;
  const char* const begin = status.data() + key + kKey.size();
  uint64_t capabilities = 0;
  if (std::from_chars(begin, status.data() + status.size(), capabilities, 16).ec != std::errc()) return true;
  return (capabilities >> kLockCapability & 1) != 0;
}

/// Writes to the disk, not only to memory, with a piece on its way while the next one is copied: so a slow
/// disk is noticed, and little remains for fsync.
void write_for(double seconds, int64_t bytes, const FileDescriptor& file, const fs::path& folder,
               FolderSpeed& speed) {
  const std::string piece(size_t{1} << 19, '\x5a');
  const auto size = static_cast<int64_t>(piece.size());
  const double began = steady_seconds();
  int64_t written = 0;
  while (written < bytes && (written == 0 || steady_seconds() - began < seconds)) {
    if (const int error = write_all(file.get(), piece); error != 0) throw io_error(folder, "write", error);
    // Advice: a file system that cannot do it leaves all to fsync.
    static_cast<void>(::sync_file_range(file.get(), written, size, SYNC_FILE_RANGE_WRITE));
    if (written > 0)
      static_cast<void>(::sync_file_range(file.get(), written - size, size, SYNC_FILE_RANGE_WAIT_AFTER));
    written += size;
  }
  if (::fsync(file.get()) != 0) throw io_error(folder, "fsync", errno);
  speed.bytes = static_cast<double>(written);
  speed.seconds = steady_seconds() - began;
}

}  // namespace

std::vector<Finding> machine_findings(const HostFacts& facts, const fs::path& root) {
  std::vector<Finding> findings;
  note_governor(root, findings);
  note_huge_pages(root, findings);
  note_limits(facts, findings);
  return findings;
}

std::vector<Finding> rank_findings(const HostFacts& facts, int64_t ranks, const fs::path& root) {
  // NCCL registers buffers of 4 MiB for each channel and peer. CUDA's own pinned memory has no such limit.
  constexpr int64_t kEnough = int64_t{1} << 30;
  std::error_code unreadable;
  const bool has_adapter = !directory_entries(root / "sys/class/infiniband", unreadable).empty();
  if (ranks < 2 || !has_adapter || !facts.locked_memory || *facts.locked_memory >= kEnough ||
      may_lock_all(root))
    return {};
  return {{.text = fmt::format("this process may lock {} of memory (ulimit -l): NCCL and MPI may fail to "
                               "register their buffers with InfiniBand",
                               human_bytes(*facts.locked_memory)),
           .mend = "ulimit -l unlimited, or memlock in /etc/security/limits.conf, or docker run --ulimit "
                   "memlock=-1"}};
}

FolderSpeed measure_folder(const fs::path& folder, int64_t bytes, double seconds) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) throw io_error(folder, "statvfs", errno);
  FolderSpeed speed{.free_bytes = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize)};
  const FileDescriptor file = open_nameless_file(folder);
  // Nothing is filled up for a measurement.
  if (speed.free_bytes >= 2 * static_cast<double>(bytes)) write_for(seconds, bytes, file, folder, speed);
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
    findings.push_back(
        {.text = fmt::format("{} takes {:.3g} MB/s when files are synced, as checkpoints are "
                             "({:.3g} MB in {:.1f} s)",
                             name, speed.bytes / speed.seconds * 1e-6, speed.bytes * 1e-6, speed.seconds),
         .mend = "choose a faster disk with run.output_dir, or a longer checkpoint.interval"});
  return findings;
}

void sort_worst_first(std::vector<Finding>& findings) {
  std::ranges::stable_sort(findings, [](const Finding& a, const Finding& b) { return a.cost > b.cost; });
}

}  // namespace trainer
