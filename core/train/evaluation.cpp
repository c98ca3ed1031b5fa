// SPDX-License-Identifier: Apache-2.0
#include "core/train/evaluation.h"

namespace trainer {
namespace {

/// Batches whose results are still to come.
constexpr int64_t kMaxInFlight = 4;

}  // namespace

Evaluation::Evaluation(Executable& executable, DataPipeline& data, int64_t samples, bool averages)
    : executable_(executable), feed_(executable, data), samples_(samples) {
  auto add_pass = [&](const char* name, const char* prefix) {
    const size_t entry = executable.entry(name);
    passes_.push_back({entry, prefix, Outputs(executable, entry, kMaxInFlight)});
  };
  add_pass("evaluate", "");
  if (averages) add_pass("evaluate_averages", "ema_");
}

std::optional<std::map<std::string, double>> Evaluation::run(const std::function<bool()>& give_up) {
  std::map<std::string, double> means;
  feed_.pipeline().restart();
  int64_t in_flight = 0;
  for (int64_t left = feed_.pipeline().remaining(); left > 0 || in_flight > 0;) {
    if (left == 0 || in_flight == kMaxInFlight) {
      for (Pass& pass : passes_) add(pass, means);
      --in_flight;
      continue;
    }
    if (give_up() || !feed_.await(give_up)) return abandon(in_flight);
    feed_.next();
    for (Pass& pass : passes_) {
      executable_.run(pass.entry);
      pass.outputs.ask();
    }
    feed_.done();
    --left;
    ++in_flight;
  }
  for (auto& [name, sum] : means) sum /= static_cast<double>(samples_);
  return means;
}

/// Takes what is still to come, so that the next pass begins anew.
std::nullopt_t Evaluation::abandon(int64_t in_flight) {
  for (; in_flight > 0; --in_flight) {
    for (Pass& pass : passes_) pass.outputs.take();
  }
  return std::nullopt;
}

/// Adds the results of the oldest batch under way.
void Evaluation::add(Pass& pass, std::map<std::string, double>& sums) {
  const std::vector<double>& values = pass.outputs.take();
  for (size_t i = 0; i < values.size(); ++i) sums[pass.prefix + pass.outputs.names()[i]] += values[i];
}

}  // namespace trainer
