// SPDX-License-Identifier: Apache-2.0
#include "core/train/evaluation.h"

#include <utility>

#include "core/graph/names.h"

namespace trainer {
namespace {

/// Batches whose results are still to come.
constexpr int64_t kMaxInFlight = 4;

}  // namespace

Evaluation::Evaluation(Executable& executable, DataPipeline& data, int64_t samples,
                       std::vector<Metric> metrics, bool averages)
    : executable_(executable), feed_(executable, data), samples_(samples), metrics_(std::move(metrics)) {
  auto add_pass = [&](const char* name, const char* prefix) {
    const size_t entry = executable.entry(name);
    passes_.push_back({entry, prefix, Outputs(executable, entry, kMaxInFlight)});
  };
  add_pass(entry_name::kEvaluate, "");
  if (averages) add_pass(entry_name::kEvaluateAverages, kAveraged);
}

std::optional<std::map<std::string, double>> Evaluation::run(Agreement& agreement) {
  const auto leaves = [&] { return agreement.leaves_now(); };
  std::map<std::string, double> sums;
  feed_.pipeline().restart();
  int64_t in_flight = 0;
  for (int64_t left = feed_.pipeline().remaining(); left > 0 || in_flight > 0;) {
    if (left == 0 || in_flight == kMaxInFlight) {
      for (Pass& pass : passes_) add(pass, sums);
      --in_flight;
      if (agreement.result().stop) return abandon(agreement, in_flight);
      continue;
    }
    if (leaves() || !feed_.await(leaves)) return abandon(agreement, in_flight);
    enqueue(agreement);
    --left;
    ++in_flight;
  }
  return values(sums);
}

std::map<std::string, double> Evaluation::values(const std::map<std::string, double>& sums) const {
  std::map<std::string, double> values;
  for (const Metric& metric : metrics_) {
    std::vector<double> of_metric;
    for (const std::string& sum : metric.sums) of_metric.push_back(sums.at(sum));
    values[metric.name] = metric.value(of_metric, static_cast<double>(samples_));
  }
  return values;
}

void Evaluation::enqueue(Agreement& agreement) {
  std::exception_ptr failure;
  feed_.next(&failure);
  if (failure != nullptr) agreement.fail(failure);
  agreement.vote();
  for (Pass& pass : passes_) {
    executable_.run(pass.entry);
    pass.outputs.ask();
  }
  feed_.done();
}

/// Takes what is in flight, so that the next pass can start.
std::nullopt_t Evaluation::abandon(Agreement& agreement, int64_t in_flight) {
  for (; in_flight > 0; --in_flight) {
    for (Pass& pass : passes_) pass.outputs.take();
    agreement.result();
  }
  return std::nullopt;
}

/// Adds the results of the oldest batch under way.
void Evaluation::add(Pass& pass, std::map<std::string, double>& sums) {
  const std::vector<double>& values = pass.outputs.take();
  for (size_t i = 0; i < values.size(); ++i) sums[pass.prefix + pass.outputs.names()[i]] += values[i];
}

}  // namespace trainer
