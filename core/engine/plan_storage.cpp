// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "core/engine/arena.h"
#include "core/engine/planning.h"
#include "core/graph/ops/assign.h"

namespace trainer {
namespace {

constexpr int kNever = -1;

/// Decides for one entry which tensors lie in one piece of memory (a storage), when each storage is alive,
/// and where it lies. A storage is named by one of its tensors.
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
    last_use_.assign(count, kNever);
    for (size_t n = 0; n < entry_.nodes.size(); ++n) {
      const Node& node = entry_.nodes[n].node;
      for (TensorId id : node.inputs) {
        if (id != kNone) last_use_[index(id)] = static_cast<int>(n);
      }
      for (TensorId id : node.outputs) {
        if (id == kNone) continue;
        defined_[index(id)] = static_cast<int>(n);
        last_use_[index(id)] = static_cast<int>(n);
      }
    }
    for (const NamedTensor& output : entry_.outputs) {
      if (output.tensor != kNone) last_use_[index(output.tensor)] = static_cast<int>(entry_.nodes.size());
    }
  }

  /// An assigned value is computed in the state's own memory where nothing reads the old value later.
  void share_assigned() {
    for (size_t n = 0; n < entry_.nodes.size(); ++n) {
      PlannedNode& planned = entry_.nodes[n];
      if (dynamic_cast<const Assign*>(planned.node.op.get()) == nullptr) continue;
      const TensorId state = planned.node.inputs[0], value = planned.node.inputs[1];
      if (!may_overwrite(state, value, static_cast<int>(n))) continue;
      storage_[index(value)] = state;
      planned.runs = false;
      for (TensorId id = made_of(value); id != kNone && may_overwrite(state, id, static_cast<int>(n));
           id = made_of(id)) {
        storage_[index(id)] = state;
      }
    }
  }

  /// What a value is computed from in place, if nothing else reads that later.
  TensorId made_of(TensorId value) const {
    const int producer = defined_[index(value)];
    const Node& node = entry_.nodes[static_cast<size_t>(producer)].node;
    const size_t output = output_index(node, value);
    TensorId found = kNone;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorId id = node.inputs[i];
      if (id == kNone || !node.op->in_place(i, output) || defined_[index(id)] == kNever) continue;
      if (last_use_[index(id)] == producer && layout(id) == layout(value) && bytes_of(id) == bytes_of(value))
        found = id;
    }
    return std::ranges::count(node.inputs, found) == 1 ? found : kNone;
  }

  bool may_overwrite(TensorId state, TensorId value, int assign) const {
    const int producer = defined_[index(value)];
    if (producer == kNever || storage_[index(value)] != value || is_output(value)) return false;
    const PlannedNode& planned = entry_.nodes[static_cast<size_t>(producer)];
    if (planned.node.op->is_view()) return false;
    for (int n = producer; n < static_cast<int>(entry_.nodes.size()); ++n) {
      if (n == assign) continue;
      const Node& node = entry_.nodes[static_cast<size_t>(n)].node;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (viewed(node.inputs[i]) != state) continue;
        if (n != producer || !node.op->in_place(i, output_index(node, value))) return false;
      }
    }
    return true;
  }

  /// The tensor whose memory this one is, by whatever number of views.
  TensorId viewed(TensorId id) const {
    while (id != kNone && defined_[index(id)] != kNever) {
      const Node& node = entry_.nodes[static_cast<size_t>(defined_[index(id)])].node;
      if (!node.op->is_view()) break;
      id = node.inputs[0];
    }
    return id;
  }

  static size_t output_index(const Node& node, TensorId id) {
    return static_cast<size_t>(std::find(node.outputs.begin(), node.outputs.end(), id) -
                               node.outputs.begin());
  }

  /// Views share always; other outputs take over the memory of an input that dies where that is allowed.
  void share_in_order() {
    for (size_t n = 0; n < entry_.nodes.size(); ++n) {
      PlannedNode& planned = entry_.nodes[n];
      const Node& node = planned.node;
      if (node.op->is_view()) {
        storage_[index(node.outputs[0])] = root(node.inputs[0]);
        planned.runs = false;
        continue;
      }
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        if (node.outputs[o] == kNone || storage_[index(node.outputs[o])] != node.outputs[o]) continue;
        for (size_t i = 0; i < node.inputs.size(); ++i) {
          if (!can_take_over(node, i, o, static_cast<int>(n))) continue;
          storage_[index(node.outputs[o])] = root(node.inputs[i]);
          break;
        }
      }
    }
  }

  bool can_take_over(const Node& node, size_t i, size_t o, int n) const {
    const TensorId input = node.inputs[i], output = node.outputs[o];
    if (input == kNone || !node.op->in_place(i, o)) return false;
    const TensorId owner = root(input);
    if (defined_[index(owner)] == kNever || is_persistent(plan_.tensors[index(owner)].role)) return false;
    if (bytes_of(owner) != bytes_of(output) || layout(input) != layout(output)) return false;
    for (size_t other : sharers(owner)) {
      if (last_use_[other] > n) return false;
    }
    // A second operand in the same memory would be overwritten before it is read, unless it is this operand.
    for (size_t other = 0; other < node.inputs.size(); ++other) {
      if (other == i || node.inputs[other] == kNone || root(node.inputs[other]) != owner) continue;
      if (node.inputs[other] != input || !node.op->in_place(other, o)) return false;
    }
    return true;
  }

  std::vector<size_t> sharers(TensorId owner) const {
    std::vector<size_t> tensors;
    for (size_t i = 0; i < storage_.size(); ++i) {
      if (storage_[i] == owner) tensors.push_back(i);
    }
    return tensors;
  }

  /// Numbers that the entry puts out lie side by side, so that they can travel together (outputs.h).
  void find_numbers() {
    for (const NamedTensor& output : entry_.outputs) {
      if (output.tensor == kNone || region(root(output.tensor)) != Region::scratch) continue;
      if (plan_.tensors[index(output.tensor)].spec.shape == Shape{1} &&
          bytes_of(root(output.tensor)) <= kArenaAlignment)
        numbers_.try_emplace(root(output.tensor), static_cast<int64_t>(numbers_.size()) * kArenaAlignment);
    }
  }

  /// The storage that stands for those that get their place together.
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
    entry_.live_bytes = lower_bound_bytes(lifetimes);
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

  /// What the live bytes consist of at the step where they are most.
  void record_peak(const std::vector<Lifetime>& lifetimes, const std::vector<TensorId>& owners) {
    for (const Lifetime& at : lifetimes) {
      std::map<std::string, int64_t> kinds;
      int64_t sum = 0;
      for (size_t i = 0; i < lifetimes.size(); ++i) {
        if (lifetimes[i].first > at.first || lifetimes[i].last < at.first) continue;
        const bool gradient = owners[i] != kNone && plan_.tensors[index(owners[i])].role == Role::gradient;
        const std::string kind = owners[i] == kNone ? "workspace" : gradient ? "gradients" : "activations";
        kinds[kind] += align_up(lifetimes[i].bytes);
        sum += align_up(lifetimes[i].bytes);
      }
      if (sum != entry_.live_bytes) continue;
      entry_.peak_by_kind = kinds;
      return;
    }
  }

  Region region(TensorId owner) const {
    const Role role = plan_.tensors[index(owner)].role;
    const bool is_placed = is_from_outside(role) || is_persistent(role);
    return is_placed ? plan_.placements[index(owner)].region : Region::scratch;
  }

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
  std::vector<TensorId> storage_;
  std::vector<int> defined_, last_use_;
  std::map<TensorId, int64_t> numbers_;  ///< storages of the entry's numbers, and where each lies among them
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
