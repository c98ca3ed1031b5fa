// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>

#include "core/graph/builder.h"
#include "core/graph/ops/assign.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/concat.h"
#include "core/graph/ops/exchange.h"
#include "core/passes/uses.h"
#include "core/step/stages.h"
#include "core/step/stages_of_nodes.h"

namespace trainer {
namespace {

bool is_backward(const Node& node) {
  return node.phase != Phase::forward;
}

/// The entry of one micro-batch, by units.
class MicroBatchEntry {
 public:
  MicroBatchEntry(const Entry& entry, const PipelineSchedule& schedule, int64_t position) : entry_(entry) {
    const auto stages = stages_of_nodes(entry, schedule);
    for (size_t n = 0; n < entry.nodes.size(); ++n)
      units_[first_of(stages[n], is_backward(entry.nodes[n]), schedule, position)].push_back(&entry.nodes[n]);
  }

  const Entry& entry() const { return entry_; }
  std::vector<const Node*> nodes(const Unit& unit) const {
    const auto found = units_.find({unit.stage, unit.is_backward});
    return found == units_.end() ? std::vector<const Node*>{} : found->second;
  }

 private:
  using Key = std::pair<int64_t, bool>;

  /// Of the rank's stages that a node belongs to the one that comes first. What belongs to all of them, or
  /// stands for a result of another rank, comes as early as it can.
  static Key first_of(const std::set<int64_t>& stages, bool backward, const PipelineSchedule& schedule,
                      int64_t position) {
    std::set<int64_t> all, own;
    for (int64_t stage = position; stage < schedule.stages(); stage += schedule.ranks) {
      all.insert(stage);
      if (stages.contains(stage)) own.insert(stage);
    }
    const std::set<int64_t>& from = own.empty() ? all : own;
    return {backward ? *from.rbegin() : *from.begin(), backward};
  }

  const Entry& entry_;
  std::map<Key, std::vector<const Node*>> units_;
};

/// Writes one entry with all micro-batches.
class Unrolling {
 public:
  Unrolling(Program& program, const PipelineSchedule& schedule, Entry& result, int64_t next_number)
      : program_(program), schedule_(schedule), build_(program, result), number_(next_number) {}

  /// `of(i)`: the entry of micro-batch i.
  template <class Of>
  void run(const std::vector<std::vector<Unit>>& units, const std::vector<Route>& routes, const Of& of) {
    for (int64_t i = 0; i < schedule_.micro_batches; ++i) note_changes(of(i).entry());
    const Timeline times = timeline(schedule_, units, routes, usual_seconds);
    require_end(schedule_, routes, times.actions);
    Started* open = nullptr;
    for (const StageAction& action : times.actions[static_cast<size_t>(program_.stage)]) {
      if (action.kind == StageAction::Kind::compute) {
        close(open);
        compute(action.unit, of(action.unit.micro_batch));
        continue;
      }
      // What is received after a send may depend on it, and is begun by itself.
      const bool receives = action.kind == StageAction::Kind::receive;
      if (receives && open != nullptr && !open->sent.empty()) close(open);
      if (open == nullptr) open = &started_.emplace_back();
      const MicroBatchEntry& entry = of(action.micro_batch);
      if (receives) {
        receive(*open, routes[action.route], action, entry.entry());
      } else {
        send(*open, routes[action.route], action, entry.entry());
      }
    }
    close(open);
    while (!started_.empty()) finish(started_.begin());
  }

  /// What a tensor of the entry of micro-batch i has become.
  TensorId present(TensorId id, int64_t i) {
    if (id == kNone) return id;
    const auto& made = made_[i];
    if (const auto found = made.find(id); found != made.end()) return found->second;
    if (const auto state = current_.find(id); state != current_.end()) return state->second;
    return program_.tensor(id).role == Role::input ? slice(id, i) : id;
  }

  /// The value that a persistent tensor has by now.
  TensorId value(TensorId id) const {
    const auto state = current_.find(id);
    return state == current_.end() ? id : state->second;
  }
  /// Persistent tensors that micro-batches have changed, with their values.
  const std::map<TensorId, TensorId>& changed() const { return current_; }

 private:
  /// Messages that are begun together: first those that are received.
  struct Started {
    std::vector<TensorId> sent;
    std::vector<Peer> to;
    std::vector<ExchangeStart::Received> from;
    std::vector<TensorId> received;                  ///< by the nodes that read it
    std::vector<std::pair<size_t, int64_t>> routes;  ///< of these, with their micro-batches
    int64_t number = -1;                             ///< of the collective, once it is begun
    std::vector<TensorId> outputs;                   ///< of its start
    Phase phase = Phase::forward;
    bool has_lasted = false;  ///< a unit was computed since
  };

  void note_changes(const Entry& entry) {
    for (const Node& node : entry.nodes) {
      if (dynamic_cast<const Assign*>(node.op.get()) != nullptr) changes_.insert(node.inputs[Assign::kState]);
    }
  }

  /// The number of a route between two ranks: other messages have smaller ones.
  static int64_t number_of(size_t route) { return static_cast<int64_t>(route) + 1; }

  void send(Started& group, const Route& route, const StageAction& action, const Entry& entry) {
    const auto output = std::ranges::find_if(entry.outputs, [&](const NamedTensor& each) {
      return sent_route(each) == std::optional(action.route);
    });
    if (output == entry.outputs.end()) throw std::logic_error("nothing is sent on a route");
    group.sent.push_back(present(output->tensor, action.micro_batch));
    group.to.push_back({schedule_.rank_of(route.to), number_of(action.route)});
    group.phase = route.is_backward ? Phase::backward : Phase::forward;
  }

  void receive(Started& group, const Route& route, const StageAction& action, const Entry& entry) {
    for (const Node& node : entry.nodes) {
      const auto* op = dynamic_cast<const Receive*>(node.op.get());
      if (op == nullptr || op->route != action.route) continue;
      const TensorId fresh = copy_of(node.outputs[Receive::kY]);
      group.from.push_back(
          {.from = {schedule_.rank_of(route.from), number_of(action.route)}, .spec = op->spec});
      group.received.push_back(fresh);
      group.routes.emplace_back(action.route, action.micro_batch);
      made_[action.micro_batch][node.outputs[Receive::kY]] = fresh;
      group.phase = route.is_backward ? Phase::backward : Phase::forward;
      return;
    }
    throw std::logic_error("nothing reads what arrives on a route");
  }

  void close(Started*& open) {
    if (open == nullptr) return;
    Started& group = *std::exchange(open, nullptr);
    group.number = number_++;
    build_.set_phase(group.phase);
    build_.set_origin({{}, "exchange"});
    group.outputs =
        build_.emit_all(std::make_shared<ExchangeStart>(group.number, group.to, group.from), group.sent);
  }

  void finish(std::list<Started>::iterator group) {
    Node node{
        .op = std::make_shared<CollectiveDone>(group->number, group->received.size(), group->sent.size()),
        .inputs = group->outputs,
        .outputs = group->received,
        .origin = {{}, "exchange"},
        .phase = group->phase};
    node.inputs.insert(node.inputs.end(), group->sent.begin(), group->sent.end());
    build_.entry().nodes.push_back(std::move(node));
    started_.erase(group);
  }

  /// Waits for what the unit reads, and for messages that had the time of a unit to leave.
  void compute(const Unit& unit, const MicroBatchEntry& entry) {
    const std::vector<const Node*> nodes = entry.nodes(unit);
    std::set<size_t> read;
    for (const Node* node : nodes) {
      if (const auto* op = dynamic_cast<const Receive*>(node->op.get())) read.insert(op->route);
    }
    for (auto group = started_.begin(); group != started_.end();) {
      const auto next = std::next(group);
      const bool is_read = std::ranges::any_of(group->routes, [&](const auto& each) {
        return each.second == unit.micro_batch && read.contains(each.first);
      });
      if (is_read || (group->routes.empty() && group->has_lasted)) finish(group);
      group = next;
    }
    for (const Node* node : nodes) append(*node, unit.micro_batch);
    for (Started& group : started_) group.has_lasted = true;
  }

  void append(const Node& original, int64_t i) {
    if (dynamic_cast<const Receive*>(original.op.get()) != nullptr) return;
    Node node = original;
    for (TensorId& id : node.inputs) id = present(id, i);
    if (dynamic_cast<const Exchange*>(node.op.get()) != nullptr) {  // between two stages of this rank
      made_[i][node.outputs[Exchange::kY]] = node.inputs[Exchange::kX];
      return;
    }
    if (dynamic_cast<const Assign*>(node.op.get()) != nullptr) {
      current_[original.inputs[Assign::kState]] = node.inputs[Assign::kValue];
      return;
    }
    if (is_same_in_all(node) && reuse(original, node, i)) return;
    number(node, i);
    for (TensorId& id : node.outputs) {
      if (id == kNone) continue;
      const TensorId fresh = copy_of(id);
      made_[i][id] = fresh;
      id = fresh;
    }
    if (is_same_in_all(node)) {
      same_.insert(node.outputs.begin(), node.outputs.end());
      once_[{node.op.get(), node.inputs}] = node.outputs;
    }
    build_.entry().nodes.push_back(std::move(node));
  }

  /// Whether each micro-batch computes the same: it reads only what a step does not change before its update.
  bool is_same_in_all(const Node& node) const {
    if (node.inputs.empty() || dynamic_cast<const CollectiveStart*>(node.op.get()) != nullptr ||
        dynamic_cast<const CollectiveDone*>(node.op.get()) != nullptr)
      return false;
    return std::ranges::all_of(node.inputs, [&](TensorId id) {
      return id == kNone || same_.contains(id) ||
             (is_persistent(program_.tensor(id).role) && !changes_.contains(id));
    });
  }

  bool reuse(const Node& original, const Node& node, int64_t i) {
    const auto known = once_.find({node.op.get(), node.inputs});
    if (known == once_.end()) return false;
    for (size_t o = 0; o < original.outputs.size(); ++o) {
      if (original.outputs[o] != kNone && known->second[o] == kNone) return false;
    }
    for (size_t o = 0; o < original.outputs.size(); ++o) {
      if (original.outputs[o] != kNone) made_[i][original.outputs[o]] = known->second[o];
    }
    return true;
  }

  /// Collectives have a number of their own in each micro-batch.
  void number(Node& node, int64_t i) {
    if (const auto* start = dynamic_cast<const CollectiveStart*>(node.op.get())) {
      const auto* sum = dynamic_cast<const AllReduceStart*>(start);
      if (sum == nullptr) throw std::logic_error(std::string(start->name()) + " in a micro-batch");
      numbers_[{i, sum->number}] = number_;
      node.op = std::make_shared<AllReduceStart>(number_++, sum->axis);
    } else if (const auto* done = dynamic_cast<const CollectiveDone*>(node.op.get())) {
      node.op = std::make_shared<CollectiveDone>(numbers_.at({i, done->number}), done->count, done->read);
    }
  }

  TensorId copy_of(TensorId id) {
    Tensor copy = program_.tensor(id);
    copy.name.clear();
    return program_.add(std::move(copy));
  }

  /// The samples of micro-batch i. Inputs still have the shape of one micro-batch.
  TensorId slice(TensorId input, int64_t i) {
    const auto [known, fresh] = slices_.try_emplace({input, i}, kNone);
    if (!fresh) return known->second;
    const TensorSpec one = program_.spec(input);
    const auto op = std::make_shared<Slice>(0, i * one.shape[0], one.shape[0]);
    known->second = program_.add({.name = "", .spec = one});
    build_.entry().nodes.push_back({.op = op,
                                    .inputs = {input},
                                    .outputs = {known->second},
                                    .origin = {{}, program_.tensor(input).name},
                                    .phase = Phase::forward});
    return known->second;
  }

  Program& program_;
  const PipelineSchedule& schedule_;
  Builder build_;
  int64_t number_;                                        ///< of the next collective
  std::map<int64_t, std::map<TensorId, TensorId>> made_;  ///< by micro-batch
  std::map<TensorId, TensorId> current_;                  ///< the value of a persistent tensor by now
  std::map<std::pair<TensorId, int64_t>, TensorId> slices_;
  std::map<std::pair<int64_t, int64_t>, int64_t> numbers_;
  std::set<TensorId> changes_;  ///< persistent tensors that micro-batches change
  std::set<TensorId> same_;     ///< what is the same in all micro-batches
  std::map<std::pair<const Operation*, std::vector<TensorId>>, std::vector<TensorId>> once_;
  std::list<Started> started_;  ///< not waited for
};

std::vector<std::vector<Unit>> all_units(const PipelineSchedule& schedule,
                                         std::vector<Unit> (*of_rank)(const PipelineSchedule&, int64_t)) {
  std::vector<std::vector<Unit>> units;
  for (int64_t rank = 0; rank < schedule.ranks; ++rank) units.push_back(of_rank(schedule, rank));
  return units;
}

int64_t next_number(const Program& program) {
  int64_t next = 0;
  for (const Entry& entry : program.entries) next = std::max(next, next_collective(entry));
  return next;
}

/// After the micro-batches: changes what outlives the step, unless the update does.
void assign_changed(Program& program, Entry& entry, const Unrolling& steps, const Entry& update) {
  std::set<TensorId> later;
  for (const Node& node : update.nodes) {
    if (dynamic_cast<const Assign*>(node.op.get()) != nullptr) later.insert(node.inputs[Assign::kState]);
  }
  Builder build(program, entry);
  build.set_phase(Phase::backward);
  for (const auto& [state, value] : steps.changed()) {
    if (outlives_step(program.tensor(state).role) && !later.contains(state)) build.assign(state, value);
  }
}

Entry training_entry(Program& program, const PipelineSchedule& schedule) {
  const auto optional_entry = [&](const char* name) -> const Entry& {
    const Entry* found = program.find_entry(name);
    return found == nullptr ? program.entry(entry_name::kAccumulateNext) : *found;
  };
  const int64_t position = program.stage;
  const MicroBatchEntry first(program.entry(entry_name::kAccumulateFirst), schedule, position),
      next(program.entry(entry_name::kAccumulateNext), schedule, position),
      last(optional_entry(entry_name::kAccumulateLast), schedule, position);
  Entry step(entry_name::kTrainStep);
  step.routes = first.entry().routes;
  Unrolling steps(program, schedule, step, next_number(program));
  steps.run(all_units(schedule, units_of), first.entry().routes, [&](int64_t i) -> const MicroBatchEntry& {
    return i == 0 ? first : i == schedule.micro_batches - 1 ? last : next;
  });
  const Entry& update = program.entry(entry_name::kUpdate);
  std::vector<Node> nodes = update.nodes;
  for (Node& node : nodes) {
    const bool assigns = dynamic_cast<const Assign*>(node.op.get()) != nullptr;
    for (size_t n = 0; n < node.inputs.size(); ++n) {
      if (node.inputs[n] != kNone && !(assigns && n == Assign::kState))
        node.inputs[n] = steps.value(node.inputs[n]);
    }
    step.nodes.push_back(std::move(node));
  }
  assign_changed(program, step, steps, update);
  step.outputs = update.outputs;
  for (NamedTensor& output : step.outputs) output.tensor = steps.value(output.tensor);
  return step;
}

/// Outputs with something of each sample; the others are sums.
bool has_rows(const std::string& output) {
  return output == output_name::kConfusionCells || output == score_output::kLogits ||
         output == score_output::kTargets || output == score_output::kWeights;
}

/// An output of all micro-batches.
TensorId joined(Builder& build, const std::string& output, const std::vector<TensorId>& parts) {
  if (has_rows(output)) return build.emit<Concat>(parts, 0);
  TensorId sum = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) sum = build.emit<Binary>({sum, parts[i]}, Binary::Kind::add);
  return sum;
}

Entry evaluation_entry(Program& program, const PipelineSchedule& schedule, const Entry& original) {
  const MicroBatchEntry one(original, schedule, program.stage);
  Entry all(original.name);
  Unrolling steps(program, schedule, all, next_number(program));
  steps.run(all_units(schedule, forward_units_of), original.routes,
            [&](int64_t) -> const MicroBatchEntry& { return one; });
  Builder build(program, all);
  for (const NamedTensor& output : original.outputs) {
    if (sent_route(output)) continue;
    std::vector<TensorId> parts;
    for (int64_t i = 0; i < schedule.micro_batches; ++i) parts.push_back(steps.present(output.tensor, i));
    all.outputs.push_back({output.name, joined(build, output.name, parts)});
  }
  return all;
}

/// Sums of gradients, and what else only micro-batches passed to each other, have no memory of their own.
void forget_passed(Program& program) {
  const std::vector<bool> read = are_read(program);
  for (TensorId id = 0; std::cmp_less(id, program.tensors.size()); ++id) {
    const Role role = program.tensor(id).role;
    if (is_persistent(role) && !outlives_step(role) && !read[static_cast<size_t>(id)]) program.forget(id);
  }
}

}  // namespace

Pass schedule_stages(const PipelineSchedule& schedule) {
  auto run = [schedule](Program& program) {
    std::vector<Entry> entries = {training_entry(program, schedule)};
    for (const char* name : {entry_name::kEvaluate, entry_name::kEvaluateAverages}) {
      const Entry* original = program.find_entry(name);
      if (original != nullptr) entries.push_back(evaluation_entry(program, schedule, Entry(*original)));
    }
    program.entries = std::move(entries);
    for (Tensor& tensor : program.tensors) {
      if (tensor.role == Role::input) tensor.spec.shape[0] *= schedule.micro_batches;
    }
    forget_passed(program);
  };
  return {.name = "schedule_stages",
          .help = "compute all micro-batches of a step in one run, in the order of parallelism.schedule",
          .optional = false,
          .run = run,
          .after = {"own_stage", "update", "sum_stages", "dead_code", "average_weights"}};
}

}  // namespace trainer
