// SPDX-License-Identifier: Apache-2.0
#include "core/engine/step_timeline.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>

#include "core/engine/traffic.h"
#include "core/graph/names.h"
#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/exchange.h"

namespace trainer {
namespace {

/// Messages between two stages with one number arrive in the order in which they are sent.
using Channel = std::tuple<int64_t, int64_t, int64_t>;  ///< from, to, number

/// A message that a rank receives: the n-th of a channel.
struct Awaited {
  Channel channel;
  size_t place;
};

/// A collective that has begun.
struct Begun {
  double end = 0;
  std::vector<Awaited> messages;
};

class Simulation {
 public:
  Simulation(std::span<const StageStep> steps, const NodeSeconds& compute, const TransferSeconds& transfer)
      : steps_(steps), compute_(compute), transfer_(transfer), ranks_(steps.size()) {}

  std::vector<StageTime> run() {
    for (bool moves = true; moves;) {
      moves = false;
      for (size_t stage = 0; stage < ranks_.size(); ++stage) {
        while (advance(stage)) moves = true;
      }
    }
    std::vector<StageTime> times;
    for (size_t stage = 0; stage < ranks_.size(); ++stage) {
      if (ranks_[stage].entry < steps_[stage].entries.size())
        throw std::logic_error("the stages of a pipeline wait for each other");
      times.push_back(ranks_[stage].time);
    }
    return times;
  }

 private:
  struct Rank {
    size_t entry = 0, node = 0;  ///< the next one
    double link_free = 0;
    StageTime time;
    std::map<int64_t, Begun> begun;  ///< collectives by number
  };

  /// Runs the next node of a stage; false at the step's end, and if it waits for what is not sent yet.
  bool advance(size_t stage) {
    Rank& rank = ranks_[stage];
    const StageStep& step = steps_[stage];
    if (rank.entry == step.entries.size()) return false;
    const PlannedEntry& entry = *step.entries[rank.entry];
    if (rank.node == entry.nodes.size()) {
      ++rank.entry;
      rank.node = 0;
      return true;
    }
    const PlannedNode& planned = entry.nodes[rank.node];
    if (const auto* start = dynamic_cast<const CollectiveStart*>(planned.node.op.get())) {
      begin(stage, *start, planned);
    } else if (const auto* done = dynamic_cast<const CollectiveDone*>(planned.node.op.get())) {
      if (!end(rank, *done)) return false;
    } else if (planned.runs) {
      compute(rank, compute_(stage, entry, rank.node));
    }
    ++rank.node;
    return true;
  }

  static void compute(Rank& rank, double seconds) {
    rank.time.computing += seconds;
    rank.time.seconds += seconds;
  }

  double bytes_of(size_t stage, const std::vector<TensorId>& tensors) const {
    double bytes = 0;
    for (const TensorId id : tensors)
      bytes += static_cast<double>(steps_[stage].plan->placements[static_cast<size_t>(id)].bytes);
    return bytes;
  }

  /// Puts `bytes` on the rank's link; returns when they are there.
  double travel(Rank& rank, const CollectiveStart& op, double bytes) {
    const TransferTime time = transfer_(op, bytes);
    compute(rank, time.processor);
    rank.link_free = std::max(rank.link_free, rank.time.seconds) + time.link;
    rank.time.transferring += time.link;
    return rank.link_free;
  }

  void begin(size_t stage, const CollectiveStart& op, const PlannedNode& planned) {
    Rank& rank = ranks_[stage];
    Begun begun;
    const auto* exchange = dynamic_cast<const ExchangeStart*>(&op);
    if (exchange == nullptr) {
      const bool gathers = dynamic_cast<const AllGatherStart*>(&op) != nullptr;
      begun.end = travel(rank, op, bytes_of(stage, gathers ? planned.node.outputs : planned.node.inputs));
    } else {
      const auto own = static_cast<int64_t>(stage);
      for (size_t i = 0; i < exchange->to.size(); ++i) {
        const Peer& peer = exchange->to[i];
        const double there = travel(rank, op, bytes_of(stage, {planned.node.inputs[i]}));
        sent_[{own, peer.position, peer.number}].push_back(there);
        begun.end = there;
      }
      for (const ExchangeStart::Received& each : exchange->from) {
        const Channel channel{each.from.position, own, each.from.number};
        begun.messages.push_back({channel, received_[channel]++});
      }
    }
    rank.begun[op.number] = std::move(begun);
  }

  /// Waits for a collective; false if a message of it has not been sent.
  bool end(Rank& rank, const CollectiveDone& op) {
    const auto found = rank.begun.find(op.number);
    if (found == rank.begun.end()) return true;  // a search for a NaN alone starts none
    double there = found->second.end;
    for (const Awaited& message : found->second.messages) {
      const std::vector<double>& sent = sent_[message.channel];
      if (sent.size() <= message.place) return false;
      there = std::max(there, sent[message.place]);
    }
    rank.time.waiting += std::max(there - rank.time.seconds, 0.0);
    rank.time.seconds = std::max(there, rank.time.seconds);
    rank.begun.erase(found);
    return true;
  }

  std::span<const StageStep> steps_;
  const NodeSeconds& compute_;
  const TransferSeconds& transfer_;
  std::vector<Rank> ranks_;
  std::map<Channel, std::vector<double>> sent_;  ///< when each message arrives
  std::map<Channel, size_t> received_;
};

}  // namespace

StageStep stage_step(const Plan& plan, int64_t micro_batches) {
  StageStep step{.plan = &plan, .entries = {}};
  const auto add = [&](const char* name) {
    if (!plan.has_entry(name)) return;
    for (int64_t i = 0; i < runs_of(plan, name, micro_batches); ++i)
      step.entries.push_back(&plan.entry(name));
  };
  for (const char* name : entry_name::kOfStep) add(name);
  return step;
}

std::vector<StageTime> step_timeline(std::span<const StageStep> steps, const NodeSeconds& compute,
                                     const TransferSeconds& transfer) {
  return Simulation(steps, compute, transfer).run();
}

}  // namespace trainer
