// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "core/engine/arena.h"
#include "core/engine/planning.h"
#include "core/graph/ops/assign.h"

namespace trainer {
namespace {

constexpr int kNever = -1;

/// Decides for one entry which tensors share one piece of memory (a storage), when each storage is alive, and
/// its offset. A storage is named by one of its tensors.
class StoragePlanner {
 public:
  StoragePlanner(Plan& plan, PlannedEntry& entry, int64_t workspace_alignment)
      : plan_(plan), entry_(entry), workspace_alignment_(workspace_alignment), storage_(plan.tensors.size()) {
    for (size_t i = 0; i < storage_.size(); ++i) storage_[i] = static_cast<TensorId>(i);
    index_uses();
  }

  void run() {
    share_assigned();
    share_in_order();
    place();
  }

 private:
  void index_uses() {
    const size_t count = plan_.tensors.size();
    defined_.assign(count, kNever);
    slot_.assign(count, 0);
    last_use_.assign(count, kNever);
    readers_.assign(count, {});
    viewed_ = storage_;
    for (size_t n = 0; n < entry_.nodes.size(); ++n) {
      const Node& node = entry_.nodes[n].node;
      for (const TensorId id : entry_.nodes[n].given) defined_[index(id)] = static_cast<int>(n);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const TensorId id = node.inputs[i];
        if (id == kNone) continue;
        last_use_[index(id)] = static_cast<int>(n);
        if (is_persistent(plan_.tensors[index(viewed(id))].role))
          readers_[index(viewed(id))].push_back({n, i});
      }
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        const TensorId id = node.outputs[o];
        if (id == kNone) continue;
        defined_[index(id)] = static_cast<int>(n);
        slot_[index(id)] = o;
        last_use_[index(id)] = static_cast<int>(n);
      }
      if (node.op->is_view()) viewed_[index(node.outputs[0])] = viewed(node.inputs[0]);
    }
    for (const NamedTensor& output : entry_.outputs) {
      if (output.tensor != kNone) last_use_[index(output.tensor)] = static_cast<int>(entry_.nodes.size());
    }
    last_read_ = last_use_;
  }

  /// An assigned value is computed in the state's own memory if nothing reads the old value later.
  void share_assigned() {
    for (size_t n = 0; n < entry_.nodes.size(); ++n) {
      PlannedNode& planned = entry_.nodes[n];
      if (dynamic_cast<const Assign*>(planned.node.op.get()) == nullptr) continue;
      const TensorId state = planned.node.inputs[Assign::kState], value = planned.node.inputs[Assign::kValue];
      if (!may_overwrite(state, value, n)) continue;
      share(value, state);
      planned.runs = false;
      for (TensorId id = made_of(value); id != kNone && may_overwrite(state, id, n); id = made_of(id))
        share(id, state);
    }
  }

  /// The tensor that a value is computed from in place, if nothing else reads it later.
  TensorId made_of(TensorId value) {
    if (is_given(value)) return kNone;
    const int producer = defined_[index(value)];
    const Node& node = entry_.nodes[static_cast<size_t>(producer)].node;
    const size_t output = slot_[index(value)];
    const auto [begin, end] = node.op->in_place_inputs(output, node.inputs.size());
    TensorId found = kNone;
    for (size_t i = begin; i < end; ++i) {
      const TensorId id = node.inputs[i];
      if (id == kNone || !node.op->in_place(i, output) || defined_[index(id)] == kNever) continue;
      if (last_use_[index(id)] == producer && layout(id) == layout(value) && bytes_of(id) == bytes_of(value))
        found = id;
    }
    return found != kNone && reads_once(static_cast<size_t>(producer), found) ? found : kNone;
  }

  /// Called for one node after another, some of which have very many inputs.
  bool reads_once(size_t n, TensorId id) {
    if (sorted_inputs_of_ != n) {
      sorted_inputs_ = entry_.nodes[n].node.inputs;
      std::ranges::sort(sorted_inputs_);
      sorted_inputs_of_ = n;
    }
    const auto [begin, end] = std::equal_range(sorted_inputs_.begin(), sorted_inputs_.end(), id);
    return end - begin == 1;
  }

  bool may_overwrite(TensorId state, TensorId value, size_t assign) const {
    const int producer = defined_[index(value)];
    if (producer == kNever || storage_[index(value)] != value || is_output(value)) return false;
    const PlannedNode& planned = entry_.nodes[static_cast<size_t>(producer)];
    if (planned.node.op->is_view()) return false;
    return std::ranges::all_of(readers_[index(state)], [&](const Reader& reader) {
      if (reader.node < static_cast<size_t>(producer) || reader.node == assign) return true;
      return reader.node == static_cast<size_t>(producer) &&
             planned.node.op->in_place(reader.input, slot_[index(value)]);
    });
  }

  /// The owner of this tensor's memory, through any number of views.
  TensorId viewed(TensorId id) const { return viewed_[index(id)]; }

  void share(TensorId id, TensorId owner) {
    storage_[index(id)] = owner;
    last_read_[index(owner)] = std::max(last_read_[index(owner)], last_use_[index(id)]);
  }

  /// Views share always; other outputs take over the memory of an input that dies if that is allowed.
  void share_in_order() {
    for (size_t n = 0; n < entry_.nodes.size(); ++n) {
      PlannedNode& planned = entry_.nodes[n];
      const Node& node = planned.node;
      if (node.op->is_view()) {
        share(node.outputs[0], root(node.inputs[0]));
        planned.runs = false;
        continue;
      }
      operands_.clear();
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        if (node.outputs[o] == kNone || storage_[index(node.outputs[o])] != node.outputs[o]) continue;
        const auto [begin, end] = node.op->in_place_inputs(o, node.inputs.size());
        for (size_t i = begin; i < end; ++i) {
          if (!can_take_over(node, i, o, static_cast<int>(n))) continue;
          share(node.outputs[o], root(node.inputs[i]));
          break;
        }
      }
    }
  }

  bool can_take_over(const Node& node, size_t i, size_t o, int n) {
    const TensorId input = node.inputs[i], output = node.outputs[o];
    if (input == kNone || !node.op->in_place(i, o)) return false;
    const TensorId owner = root(input);
    if (defined_[index(owner)] == kNever || (holds(owner) && !is_given(owner))) return false;
    if (bytes_of(owner) != bytes_of(output) || layout(input) != layout(output)) return false;
    if (last_read_[index(owner)] > n) return false;
    // A second operand in the same memory would be overwritten before it is read, unless it is this operand.
    for (const Operand& other : operands_in(node, owner)) {
      if (other.input == i) continue;
      if (node.inputs[other.input] != input || !node.op->in_place(other.input, o)) return false;
    }
    return true;
  }

  /// An input of a node, by the storage that it is in.
  struct Operand {
    TensorId owner;
    size_t input;
  };

  /// Those of this node that exist. Outputs of the node do not affect its inputs.
  std::span<const Operand> operands_in(const Node& node, TensorId owner) {
    if (operands_.empty()) {
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (node.inputs[i] != kNone) operands_.push_back({root(node.inputs[i]), i});
      std::ranges::stable_sort(operands_, {}, &Operand::owner);
    }
    const auto begin = std::ranges::lower_bound(operands_, owner, {}, &Operand::owner);
    return {begin, std::ranges::upper_bound(operands_, owner, {}, &Operand::owner)};
  }

  /// An entry's scalar outputs are adjacent, so that they can be copied together (outputs.h).
  void find_numbers() {
    for (const NamedTensor& output : entry_.outputs) {
      if (output.tensor == kNone || region(root(output.tensor)) != Region::scratch) continue;
      if (plan_.tensors[index(output.tensor)].spec.shape == Shape{1} &&
          bytes_of(root(output.tensor)) <= kArenaAlignment)
        numbers_.try_emplace(root(output.tensor), static_cast<int64_t>(numbers_.size()) * kArenaAlignment);
    }
  }

  /// The storage that represents those that are placed together.
  TensorId block_of(TensorId owner) const {
    return numbers_.contains(owner) ? numbers_.begin()->first : owner;
  }

  int64_t offset_in_block(TensorId owner) const {
    const auto number = numbers_.find(owner);
    return number == numbers_.end() ? 0 : number->second;
  }

  void place() {
    find_numbers();
    std::vector<Lifetime> lifetimes;
    std::vector<TensorId> owners;  // kNone: the workspace of the node at `first`
    std::map<TensorId, size_t> known;
    for (size_t i = 0; i < storage_.size(); ++i) {
      const TensorId owner = storage_[i];
      if (defined_[i] == kNever || region(owner) != Region::scratch) continue;
      const TensorId block = block_of(owner);
      const auto [entry, added] = known.try_emplace(block, lifetimes.size());
      if (added) {
        const int64_t bytes = numbers_.contains(owner)
                                  ? static_cast<int64_t>(numbers_.size()) * kArenaAlignment
                                  : bytes_of(owner);
        lifetimes.push_back({bytes, defined_[i], last_use_[i]});
        owners.push_back(block);
      }
      Lifetime& life = lifetimes[entry->second];
      life.first = std::min<int64_t>(life.first, defined_[i]);
      life.last = std::max<int64_t>(life.last, last_use_[i]);
    }
    for (size_t n = 0; n < entry_.nodes.size(); ++n) {
      if (entry_.nodes[n].choice.workspace_bytes == 0) continue;
      const auto at = static_cast<int64_t>(n);
      lifetimes.push_back({entry_.nodes[n].choice.workspace_bytes, at, at, workspace_alignment_});
      owners.push_back(kNone);
    }
    const Arrangement arrangement = arrange(lifetimes);
    record(lifetimes, owners, arrangement);
  }

  void record(const std::vector<Lifetime>& lifetimes, const std::vector<TensorId>& owners,
              const Arrangement& arrangement) {
    entry_.scratch_bytes = arrangement.bytes;
    std::map<TensorId, int64_t> offsets;
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      if (owners[i] == kNone) {
        entry_.nodes[static_cast<size_t>(lifetimes[i].first)].workspace_offset = arrangement.offsets[i];
      } else {
        offsets[owners[i]] = arrangement.offsets[i];
      }
    }
    for (size_t i = 0; i < storage_.size(); ++i) {
      if (defined_[i] == kNever) continue;
      const TensorId owner = storage_[i];
      const Placement& at = plan_.placements[index(owner)];
      plan_.placements[i].region = region(owner);
      plan_.placements[i].bytes = bytes_of(static_cast<TensorId>(i));
      plan_.placements[i].offset =
          region(owner) == Region::scratch ? offsets[block_of(owner)] + offset_in_block(owner) : at.offset;
      if (region(owner) == Region::input) plan_.placements[i].viewed_input = owner;
    }
    record_peak(lifetimes, owners);
  }

  /// The live bytes by kind, at the first step at which they peak.
  void record_peak(const std::vector<Lifetime>& lifetimes, const std::vector<TensorId>& owners) {
    if (lifetimes.empty()) return;
    const std::vector<int64_t> live = live_bytes(lifetimes);
    const auto most = static_cast<size_t>(std::ranges::max_element(live) - live.begin());
    const int64_t step = lifetimes[most].first;
    entry_.live_bytes = live[most];
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      if (lifetimes[i].first > step || lifetimes[i].last < step) continue;
      const bool gradient = owners[i] != kNone && plan_.tensors[index(owners[i])].role == Role::gradient;
      const std::string kind = owners[i] == kNone ? "workspace" : gradient ? "gradients" : "activations";
      entry_.peak_by_kind[kind] += align_up(lifetimes[i].bytes);
    }
  }

  Region region(TensorId owner) const {
    const bool is_placed = is_from_outside(plan_.tensors[index(owner)].role) || holds(owner);
    return is_placed ? plan_.placements[index(owner)].region : Region::scratch;
  }

  /// Whether the tensor keeps its value between runs; if it's given, only until its last use.
  bool holds(TensorId id) const { return is_persistent(plan_.tensors[index(id)].role); }
  bool is_given(TensorId id) const { return plan_.placements[index(id)].is_transient; }

  /// An entry has few outputs.
  bool is_output(TensorId id) const {
    return std::any_of(entry_.outputs.begin(), entry_.outputs.end(),
                       [id](const NamedTensor& output) { return output.tensor == id; });
  }

  int64_t bytes_of(TensorId id) const {
    return stored_elements(layout(id), plan_.tensors[index(id)].spec.shape) *
           plan_.placements[index(id)].element_bytes;
  }

  TensorId root(TensorId id) const { return storage_[index(id)]; }
  const Layout& layout(TensorId id) const { return plan_.placements[index(id)].layout; }
  static size_t index(TensorId id) { return static_cast<size_t>(id); }

  Plan& plan_;
  PlannedEntry& entry_;
  int64_t workspace_alignment_;
  /// The input of a node that reads a tensor that persists, perhaps by views.
  struct Reader {
    size_t node, input;
  };

  std::vector<TensorId> storage_, viewed_;
  std::vector<int> defined_, last_use_;
  std::vector<size_t> slot_;                  ///< of a tensor among the outputs of the node that makes it
  std::vector<int> last_read_;                ///< of a storage
  std::vector<std::vector<Reader>> readers_;  ///< of persistent tensors
  std::vector<Operand> operands_;             ///< of the node that shares now
  std::vector<TensorId> sorted_inputs_;
  size_t sorted_inputs_of_ = SIZE_MAX;
  /// Storages of the entry's numbers, and each one's offset among them
  std::map<TensorId, int64_t> numbers_;
};

}  // namespace

void place_storages(const Planner& planner, Plan& plan, int64_t rank) {
  for (PlannedEntry& entry : plan.entries) {
    StoragePlanner(plan, entry, planner.workspace_alignment()).run();
    plan.scratch_bytes = std::max(plan.scratch_bytes, entry.scratch_bytes);
    for (PlannedNode& planned : entry.nodes)
      planned.runs = planned.runs && only_rank(plan.tensors, planned.node).value_or(rank) == rank;
  }
}

}  // namespace trainer
