// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_emulation/faults.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "tests/cuda_emulation/scheduler.h"

namespace trainer::emulation {
namespace {

struct Log {
  std::vector<Fault> faults;
  std::set<std::pair<std::string, std::string>> seen;
  const void* kernel = nullptr;
};

Log& log() {
  static Log only;
  return only;
}

/// The output of addr2line for an address in this program: "batch_norm.cu:41".
std::string look_up(const void* address) {
  Dl_info module{};
  if (dladdr(address, &module) == 0) return "?";
  const auto offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(module.dli_fbase);
  const std::string command = fmt::format("addr2line -se {} {:#x}", module.dli_fname, offset);
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "?";
  std::array<char, 512> line{};
  const bool read = fgets(line.data(), line.size(), pipe) != nullptr;
  pclose(pipe);
  std::string text = read ? line.data() : "?";
  return text.substr(0, text.find_first_of(" \n"));
}

}  // namespace

std::string source_line(const void* pc) {
  static std::map<const void*, std::string> known;
  const auto [at, is_new] = known.try_emplace(pc);
  if (is_new) at->second = look_up(static_cast<const char*>(pc) - 1);
  return at->second;
}

std::vector<Fault> take_faults() {
  return std::exchange(log().faults, {});
}

void begin_launch(const void* kernel) {
  log().seen.clear();
  log().kernel = kernel;
}

void report(const std::string& kind, const std::string& text, const void* pc) {
  const std::string place = pc == nullptr ? text : source_line(pc);
  if (!log().seen.emplace(kind, place).second) return;
  std::string whole = pc == nullptr ? text : fmt::format("{} at {}", text, place);
  if (log().kernel != nullptr) {
    whole += " in the kernel at " + source_line(static_cast<const char*>(log().kernel) + 1);
  }
  log().faults.push_back({kind, whole + running_thread()});
}

}  // namespace trainer::emulation
