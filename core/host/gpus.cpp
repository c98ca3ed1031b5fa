// SPDX-License-Identifier: Apache-2.0
#include "core/host/gpus.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>

#include "core/base/directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

/// As CUDA reads it: a list that begins with no GPU, such as "", "-1" or "NoDevFiles", has none.
bool hides_all(std::string_view visible) {
  const bool is_number = !visible.empty() && std::isdigit(static_cast<unsigned char>(visible.front())) != 0;
  return !is_number && !visible.starts_with("GPU-") && !visible.starts_with("MIG-");
}

/// Of a process of a job or of one of its steps.
std::optional<std::string> allotted() {
  for (const char* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"}) {
    const char* gpus = std::getenv(name);
    if (gpus != nullptr && *gpus != '\0') return fmt::format("{}={}", name, gpus);
  }
  return std::nullopt;
}

/// nvidia0, nvidia1, …, but not nvidiactl.
bool is_gpu(const fs::path& file) {
  const std::string name = file.filename().string();
  constexpr std::string_view kBegin = "nvidia";
  return name.starts_with(kBegin) && name.size() > kBegin.size() &&
         name.find_first_not_of("0123456789", kBegin.size()) == std::string::npos;
}

/// A device file that a job may not open is another job's GPU.
bool is_ours(const fs::path& file) {
  return std::getenv("SLURM_JOB_ID") == nullptr || ::access(file.c_str(), R_OK | W_OK) == 0;
}

/// Under WSL 2 the GPUs of all makers share one file; NVIDIA's driver is beside it.
std::optional<fs::path> device_file(const fs::path& root) {
  std::error_code unreadable;
  const fs::path wsl = root / "usr/lib/wsl/lib/libcuda.so.1";
  if (fs::exists(root / "dev/dxg", unreadable) && fs::exists(wsl, unreadable)) return wsl;
  for (const DirectoryEntry& file : directory_entries(root / "dev", unreadable)) {
    if (is_gpu(file.path()) && is_ours(file.path())) return file.path();
  }
  return std::nullopt;
}

std::string line_of(const fs::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line;
}

/// Whether any machine's GPU could be ours: containers and jobs see the whole bus.
bool is_on_bus(const fs::path& root) {
  std::error_code unreadable;
  for (const DirectoryEntry& device : directory_entries(root / "sys/bus/pci/devices", unreadable)) {
    const std::string kind = line_of(device.path() / "class");
    if (line_of(device.path() / "vendor") == "0x10de" &&
        (kind.starts_with("0x0300") || kind.starts_with("0x0302")))
      return true;
  }
  return false;
}

}  // namespace

GpuSearch find_gpu(const fs::path& root) {
  const char* visible = std::getenv(kVisible);
  if (visible != nullptr && hides_all(visible))
    return {false, fmt::format("{}={} hides all GPUs", kVisible, visible)};
  if (const auto gpus = allotted()) return {true, *gpus};
  if (const auto file = device_file(root)) return {true, fmt::format("{} exists", file->string())};
  if (is_on_bus(root))
    return {false, "an NVIDIA GPU is on the PCI bus, but it has no device file: is NVIDIA's driver loaded?"};
  return {false, "no GPU was found"};
}

int64_t visible_gpus(const fs::path& root) {
  if (const char* visible = std::getenv(kVisible)) {
    if (hides_all(visible)) return 0;
    return 1 + std::ranges::count(std::string_view(visible), ',');
  }
  std::error_code unreadable;
  return std::ranges::count_if(directory_entries(root / "dev", unreadable), [](const DirectoryEntry& file) {
    return is_gpu(file.path()) && is_ours(file.path());
  });
}

}  // namespace trainer
