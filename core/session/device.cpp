// SPDX-License-Identifier: Apache-2.0
#include "core/session/device.h"

#include <fmt/format.h>

#include <charconv>

#include "core/host/gpus.h"
#include "core/run/tuning_file.h"

namespace trainer {
namespace {

constexpr const char* kCuda = "cuda";

/// A fact of the process that wrote the checkpoint; empty if it is not said.
std::string fact_of(const ResumePoint* from, const char* name) {
  if (from == nullptr) return "";
  const auto found = from->state.facts.find(name);
  return found == from->state.facts.end() ? "" : found->second;
}

/// On a CPU.
int64_t earlier_threads(const ResumePoint* from) {
  if (!fact_of(from, fact_name::kRanks).empty()) return 0;  // a rank's part of the cores
  const std::string text = fact_of(from, fact_name::kThreads);
  int64_t threads = 0;
  std::from_chars(text.data(), text.data() + text.size(), threads);
  return threads;
}

}  // namespace

Limit threads_of(const DeviceSection& section, int64_t processes) {
  if (section.threads > 0) return {section.threads, "device.threads"};
  return thread_limit(processes);
}

std::string host_text(const DeviceChoice& choice, int64_t processes) {
  return limits_text(memory_limit(processes),
                     choice.type == "cpu" ? choice.threads : thread_limit(processes));
}

DeviceChoice choose_device(const DeviceSection& section, const ResumePoint* from, bool must_keep) {
  DeviceChoice choice{.type = section.type, .threads = threads_of(section, 1)};
  // Results depend on their number.
  if (const int64_t earlier = earlier_threads(from); earlier > 0 && section.threads == 0) {
    const Limit& now = choice.threads;
    const std::string less =
        now.value < earlier ? fmt::format("; {} allows {}", now.name, now.value) : std::string();
    choice.threads = {earlier, "the checkpoint's" + less};
  }
  if (choice.type != "auto") {
    choice.reason = fmt::format("device.type={}", choice.type);
    return choice;
  }
  const GpuSearch search = find_gpu();
  const std::string earlier = fact_of(from, fact_name::kDevice);
  const bool keep = !earlier.empty() && (earlier != kCuda || search.found || must_keep);
  choice.type = keep ? earlier : search.found ? kCuda : "cpu";
  choice.reason = "device.type=auto: " + (keep ? "the checkpoint was made on it" : search.reason);
  return choice;
}

void set_precision(const RunSpec& spec, Planner& planner) {
  const Recipe& recipe = spec.recipe();
  const auto reason = planner.set_precision(recipe.training.parsed_precision());
  if (!reason) return;
  fail_at(recipe.origin_of("training.precision"),
          fmt::format("{} cannot be computed here: {}", recipe.training.precision, *reason));
}

Tuning earlier_tuning(const RunSpec& spec, const ResumePoint* from) {
  const Recipe& recipe = spec.recipe();
  Tuning tuning = from != nullptr
                      ? Tuning{.fastest = from->state.algorithms}
                      : load_tuning(std::filesystem::path(recipe.output_directory()) / kTuningFile);
  tuning.keeps_own = from != nullptr || !tuning.fastest.empty() || recipe.run.deterministic;
  return recipe.runtime.autotune ? tuning : timed_always(std::move(tuning));
}

}  // namespace trainer
