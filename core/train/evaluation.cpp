// SPDX-License-Identifier: Apache-2.0
#include "core/train/evaluation.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/graph/names.h"

namespace trainer {
namespace {

/// Batches with results still to come.
constexpr int64_t kMaxInFlight = 4;

/// Counts that ranks add up in one message: the length of the largest matrix's row.
constexpr auto kCountsAtOnce = static_cast<size_t>(kMostConfusionClasses);

/// Elements of an output; 0 if the entry has none of that name.
int64_t elements_of(const Plan& plan, const PlannedEntry& entry, std::string_view name) {
  for (const NamedTensor& output : entry.outputs) {
    if (output.name == name) return numel(plan.tensors[static_cast<size_t>(output.tensor)].spec.shape);
  }
  return 0;
}

int64_t cells_of(const Plan& plan, const PlannedEntry& entry) {
  return elements_of(plan, entry, output_name::kConfusionCells);
}

/// Counts below 2^53 are exact as doubles.
void add_up(std::span<int64_t> counts, ProcessGroup& group) {
  for (size_t first = 0; first < counts.size(); first += kCountsAtOnce) {
    const std::span<int64_t> some = counts.subspan(first, std::min(kCountsAtOnce, counts.size() - first));
    std::vector<double> sums(some.begin(), some.end());
    group.all_reduce(sums);
    std::ranges::transform(sums, some.begin(), [](double sum) { return static_cast<int64_t>(sum); });
  }
}

}  // namespace

Evaluation::Evaluation(Executable& executable, DataPipeline& data, int64_t samples,
                       std::vector<Metric> metrics, bool averages, std::map<std::string, double> known,
                       const ConfusionShape& shape, const ScoreShape& scores)
    : executable_(executable),
      feed_(executable, data),
      samples_(samples),
      metrics_(std::move(metrics)),
      known_(std::move(known)) {
  auto add_pass = [&](const char* name, const char* prefix) {
    const size_t entry = executable.entry(name);
    std::optional<ConfusionMatrix> matrix;
    if (cells_of(executable.plan(), executable.plan().entries[entry]) > 0) matrix.emplace(shape);
    std::optional<ScoreCounts> counts;
    if (elements_of(executable.plan(), executable.plan().entries[entry], score_output::kLogits) > 0)
      counts.emplace(scores);
    passes_.push_back({entry, prefix,
                       Outputs(executable, entry, kMaxInFlight, output_name::kConfusionCells,
                               {score_output::kLogits, score_output::kTargets, score_output::kWeights}),
                       std::move(matrix), std::move(counts)});
  };
  add_pass(entry_name::kEvaluate, "");
  if (averages) add_pass(entry_name::kEvaluateAverages, kAveraged);
}

int64_t Evaluation::matrix_bytes(const Plan& plan, const ConfusionShape& matrix) {
  int64_t bytes = 0;
  for (const PlannedEntry& entry : plan.entries) {
    const int64_t cells = cells_of(plan, entry);
    if (cells > 0)
      bytes += kMaxInFlight * cells * int64_t{sizeof(int32_t)} + matrix.counts() * int64_t{sizeof(int64_t)};
  }
  return bytes;
}

int64_t Evaluation::score_bytes(const Plan& plan, const ScoreShape& scores) {
  int64_t bytes = 0;
  for (const PlannedEntry& entry : plan.entries) {
    int64_t elements = 0;
    for (const char* name : {score_output::kLogits, score_output::kTargets, score_output::kWeights})
      elements += elements_of(plan, entry, name);
    if (elements > 0) bytes += (kMaxInFlight + 1) * elements * int64_t{sizeof(float)} + scores.bytes();
  }
  return bytes;
}

std::optional<std::map<std::string, double>> Evaluation::run(Agreement& agreement) {
  const auto leaves = [&] { return agreement.leaves_now(); };
  feed_.pipeline().restart();
  const Mesh& mesh = agreement.group().mesh();
  const int64_t rounds = feed_.pipeline().remaining(), ranks = mesh.size(Axis::data),
                share = mesh.coordinate(Axis::data, agreement.group().rank());
  // Ranks that compute the same samples have the same results, which count once. Those of a pipeline are in
  // its last stage.
  const int64_t rank = agreement.group().rank();
  const bool counts =
      mesh.coordinate(Axis::tensor, rank) == 0 && mesh.coordinate(Axis::pipeline, rank) == mesh.stages - 1;
  for (Pass& pass : passes_) {
    pass.values.assign(static_cast<size_t>(rounds * ranks) * pass.outputs.names().size(), 0);
    if (pass.matrix) pass.matrix->clear();
    if (pass.scores) pass.scores->clear();
  }
  int64_t begun = 0;
  for (int64_t taken = 0; taken < rounds;) {
    if (begun == rounds || begun - taken == kMaxInFlight) {
      for (Pass& pass : passes_) take(pass, static_cast<size_t>(taken * ranks + share), counts);
      ++taken;
      if (agreement.result().stop) return abandon(agreement, begun - taken);
      continue;
    }
    if (leaves() || !feed_.await(leaves)) return abandon(agreement, begun - taken);
    enqueue(agreement);
    ++begun;
  }
  add_up_counts(agreement.group());
  return values(sums(agreement.group()));
}

std::map<std::string, const ConfusionMatrix*> Evaluation::matrices() const {
  std::map<std::string, const ConfusionMatrix*> all;
  for (const Pass& pass : passes_) {
    if (pass.matrix) all[pass.prefix] = &*pass.matrix;
  }
  return all;
}

void Evaluation::add_up_counts(ProcessGroup& group) {
  if (group.size() == 1) return;
  for (Pass& pass : passes_) {
    if (pass.matrix) add_up(pass.matrix->counts(), group);
    if (pass.scores) add_up(pass.scores->counts(), group);
  }
}

/// Padding to the same number of batches on each rank is zero, unless a network computes NaN.
std::map<std::string, double> Evaluation::sums(ProcessGroup& group) {
  const int64_t rows = feed_.pipeline().rows(), batches = (samples_ + rows - 1) / rows;
  std::map<std::string, double> sums;
  for (Pass& pass : passes_) {
    for (const auto& [name, sum] : known_) sums[pass.prefix + name] = sum;
    group.all_reduce(pass.values);
    const std::vector<std::string>& names = pass.outputs.names();
    for (size_t i = 0; i < static_cast<size_t>(batches) * names.size(); ++i) {
      sums[pass.prefix + names[i % names.size()]] += pass.values[i];
    }
  }
  return sums;
}

std::map<std::string, double> Evaluation::values(const std::map<std::string, double>& sums) const {
  std::map<std::string, double> values;
  for (const Metric& metric : metrics_) {
    if (metric.sums.empty()) {
      values[metric.name] = counted_value(metric);
      continue;
    }
    std::vector<double> of_metric;
    for (const std::string& sum : metric.sums) of_metric.push_back(sums.at(sum));
    const double samples = metric.count.empty() ? static_cast<double>(samples_) : sums.at(metric.count);
    values[metric.name] = metric.value(of_metric, samples);
  }
  return values;
}

/// Of the pass with the cells or the logits that the metric reads.
double Evaluation::counted_value(const Metric& metric) const {
  for (const Pass& pass : passes_) {
    if (pass.matrix && pass.prefix + output_name::kConfusionCells == metric.matrix)
      return metric.of_matrix(*pass.matrix);
    if (pass.scores && pass.prefix + score_output::kLogits == metric.scores)
      return metric.of_scores(*pass.scores);
  }
  throw std::logic_error("evaluation does not count what " + metric.name + " is computed from");
}

void Evaluation::enqueue(Agreement& agreement) {
  std::exception_ptr failure;
  agreement.group().set_activity(agreement.group().status().step, Activity::evaluating);
  feed_.next(&failure);
  if (failure != nullptr) agreement.fail(failure);
  agreement.vote();
  for (Pass& pass : passes_) {
    executable_.run(pass.entry);
    pass.outputs.ask();
  }
  feed_.done();
}

/// Takes all results in flight, so that the next pass can start.
std::nullopt_t Evaluation::abandon(Agreement& agreement, int64_t in_flight) {
  for (; in_flight > 0; --in_flight) {
    for (Pass& pass : passes_) pass.outputs.take();
    agreement.result();
  }
  return std::nullopt;
}

/// The results of the oldest batch in flight, which is this one.
void Evaluation::take(Pass& pass, size_t batch, bool counts) {
  const std::vector<double>& values = pass.outputs.take();
  if (!counts) return;
  std::ranges::copy(values, pass.values.begin() + static_cast<std::ptrdiff_t>(batch * values.size()));
  if (pass.matrix) pass.matrix->add(pass.outputs.list());
  if (!pass.scores) return;
  const std::span<const float> targets = pass.outputs.array(score_output::kTargets);
  pass.scores->add({.logits = pass.outputs.array(score_output::kLogits),
                    .labels = targets,
                    .targets = targets,
                    .weights = pass.outputs.array(score_output::kWeights)});
}

}  // namespace trainer
