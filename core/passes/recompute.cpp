// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "core/graph/operation.h"
#include "core/graph/ops/all_gather.h"
#include "core/passes/liveness.h"
#include "core/passes/table.h"

namespace trainer {
namespace {

/// The cost of recomputing a tensor, in operations; reading or writing a byte takes about as long as four.
constexpr double kOperationsPerByte = 4;
/// Operations per byte made up to which an operation is cheap: element-wise functions, sums, normalisations,
/// pools.
constexpr double kCheap = 8;

using Chosen = std::set<TensorId>;

/// The node that makes the first output of a forward node again.
Node made_again(const Program& program, const Node& node) {
  Node again = node;
  again.inputs = node.op->inputs_again(node);
  again.outputs.assign(node.op->infer(node_specs(program, again).inputs).size(), kNone);
  again.outputs[0] = node.outputs[0];
  again.again = true;
  return again;
}

/// An entry in which the chosen tensors are discarded after the forward part and recomputed, each right
/// before the backward part first reads it.
class Recomputation {
 public:
  Recomputation(Program& program, const Entry& entry, const Chosen& chosen)
      : program_(program), entry_(entry), chosen_(chosen) {
    for (const Node& node : entry.nodes) {
      for (TensorId id : node.outputs) {
        if (id != kNone && node.phase == Phase::forward) producer_[id] = &node;
      }
    }
  }

  Entry run() {
    Entry result = entry_;
    result.nodes.clear();
    for (const Node& original : entry_.nodes) {
      Node node = original;
      if (node.phase == Phase::backward) {
        for (TensorId& id : node.inputs) id = available(id, node, result);
      }
      result.nodes.push_back(std::move(node));
    }
    return result;
  }

 private:
  /// The tensor to read in the backward part in place of `id`; the nodes that recompute it are appended
  /// first. A chain of chosen tensors may be as long as the network is deep.
  TensorId available(TensorId id, const Node& reader, Entry& result) {
    std::vector<Node> waiting;  // each makes the input of the one before it
    const auto is_missing = [&](TensorId input) {
      return input != kNone && chosen_.contains(input) && !again_.contains(input);
    };
    if (is_missing(id)) waiting.push_back(made_again(program_, *producer_.at(id)));
    while (!waiting.empty()) {
      const auto missing = std::ranges::find_if(waiting.back().inputs, is_missing);
      if (missing != waiting.back().inputs.end()) {
        waiting.push_back(made_again(program_, *producer_.at(*missing)));
        continue;
      }
      Node node = std::move(waiting.back());
      waiting.pop_back();
      for (TensorId& input : node.inputs) input = present(input);
      const TensorId made = node.outputs[0], copy = program_.add(Tensor(program_.tensor(made)));
      node.outputs[0] = again_[made] = copy;
      node.phase = reader.phase;
      result.nodes.push_back(std::move(node));
    }
    return present(id);
  }

  TensorId present(TensorId id) const {
    const auto known = again_.find(id);
    return known == again_.end() ? id : known->second;
  }

  Program& program_;
  const Entry& entry_;
  const Chosen& chosen_;
  std::map<TensorId, const Node*> producer_;
  std::map<TensorId, TensorId> again_;
};

struct Candidate {
  TensorId tensor = kNone;
  double cost_per_byte = 0;  ///< operations, memory traffic included
  bool cheap = false;
};

double bytes_of(const TensorSpec& spec) {
  return static_cast<double>(numel(spec.shape)) * bytes_per_element(spec.dtype);
}

/// First outputs of forward nodes that the backward part reads, cheapest bytes first.
std::vector<Candidate> candidates(const Program& program, const Entry& entry) {
  std::set<TensorId> read;
  for (const Node& node : entry.nodes) {
    if (node.phase == Phase::backward) read.insert(node.inputs.begin(), node.inputs.end());
  }
  std::vector<Candidate> found;
  for (const Node& node : entry.nodes) {
    if (node.phase != Phase::forward || node.outputs.empty() || !read.contains(node.outputs[0])) continue;
    if (!node.op->may_run_again()) continue;
    const auto [inputs, outputs] = node_specs(program, made_again(program, node));
    // An absent input counts as one number: of tensors with equal cost the largest come first.
    double traffic = 0;
    for (const TensorSpec& input : inputs) traffic += bytes_of(input);
    const double bytes = bytes_of(outputs[0]);
    const double flops = node.op->flops(inputs, outputs);
    found.push_back({.tensor = node.outputs[0],
                     .cost_per_byte = (flops + kOperationsPerByte * (traffic + bytes)) / bytes,
                     .cheap = flops <= kCheap * bytes});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Candidate& a, const Candidate& b) { return a.cost_per_byte < b.cost_per_byte; });
  return found;
}

/// Number of candidates that are tried at once. Each attempt looks at all nodes; one by one, very deep
/// networks would take time quadratic in their depth.
size_t size_of_groups(size_t candidates, size_t nodes) {
  constexpr size_t kMostVisits = 1'000'000;  // of nodes; no network that comes with the program needs more
  return candidates * nodes / kMostVisits + 1;
}

/// Takes candidates as long as each group of them lowers the peak, until `enough` bytes are reached.
void recompute_in(Program& program, Entry& entry, bool only_cheap, int64_t enough) {
  const size_t tensors = program.tensors.size();
  std::vector<Candidate> wanted = candidates(program, entry);
  if (only_cheap) std::erase_if(wanted, [](const Candidate& candidate) { return !candidate.cheap; });
  const size_t at_once = size_of_groups(wanted.size(), entry.nodes.size());
  Chosen chosen;
  int64_t peak = peak_live_bytes(program, entry);
  for (size_t begin = 0; begin < wanted.size() && peak > enough; begin += at_once) {
    const std::span<const Candidate> group =
        std::span(wanted).subspan(begin, std::min(at_once, wanted.size() - begin));
    for (const Candidate& candidate : group) chosen.insert(candidate.tensor);
    const Entry attempt = Recomputation(program, entry, chosen).run();
    const int64_t lower = peak_live_bytes(program, attempt);
    program.tensors.resize(tensors);
    if (lower < peak) {
      peak = lower;
    } else {
      for (const Candidate& candidate : group) chosen.erase(candidate.tensor);
    }
  }
  entry = Recomputation(program, entry, chosen).run();
}

}  // namespace

Pass gather_again() {
  auto run = [](Program& program) {
    Entry& entry = program.entry(entry_name::kTrainStep);
    Chosen chosen;
    for (const Node& node : entry.nodes) {
      const auto* gather = dynamic_cast<const AllGather*>(node.op.get());
      if (gather != nullptr && gather->work == Work::shared && node.phase == Phase::forward)
        chosen.insert(node.outputs[AllGather::kWhole]);
    }
    entry = Recomputation(program, entry, chosen).run();
    for (Node& node : entry.nodes) {  // no work of the rank is done twice
      if (dynamic_cast<const AllGather*>(node.op.get()) != nullptr) node.again = false;
    }
  };
  return {.name = "gather_again",
          .help = "forget gathered parameters and rows, and gather them again for the backward part",
          .optional = true,
          .run = run,
          .after = {"autodiff", "recompute"}};
}

Pass recompute(const Recompute& setting) {
  auto run = [setting](Program& program) {
    if (setting.kind == Recompute::Kind::none) return;
    const bool to_size = setting.kind == Recompute::Kind::size;
    recompute_in(program, program.entry(entry_name::kTrainStep), setting.kind == Recompute::Kind::cheap,
                 to_size ? setting.bytes : 0);
  };
  return {.name = "recompute",
          .help = "forget activations and make them again for the backward part (memory.recompute)",
          .optional = true,
          .run = run,
          .after = {"autodiff"}};
}

std::optional<Pass> recompute_pass(const PassSettings& settings) {
  return settings.trains ? std::optional(recompute(settings.recompute)) : std::nullopt;
}

}  // namespace trainer
