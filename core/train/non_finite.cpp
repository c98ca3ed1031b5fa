// SPDX-License-Identifier: Apache-2.0
#include "core/train/non_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "core/graph/names.h"
#include "core/graph/ops/all_gather.h"
#include "core/graph/ops/assign.h"
#include "core/graph/ops/for_each.h"

namespace trainer {
namespace {

/// Ends the execution of an entry's nodes.
struct TraversalEnds {};

template <class Word>
int64_t first_with_all(const std::byte* bytes, int64_t count, Word exponent) {
  for (int64_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, bytes + i * static_cast<int64_t>(sizeof word), sizeof word);
    if ((word & exponent) == exponent) return i;
  }
  return -1;
}

/// The first element that is infinite or NaN, with all bits of the exponent set; -1: there is none.
int64_t first_bad(const std::byte* bytes, int64_t count, DType dtype, int64_t element_bytes) {
  if (element_bytes == sizeof(double)) return first_with_all(bytes, count, uint64_t{0x7FF0000000000000});
  if (dtype == DType::f16) return first_with_all(bytes, count, uint16_t{0x7C00});
  if (dtype == DType::bf16) return first_with_all(bytes, count, uint16_t{0x7F80});
  return first_with_all(bytes, count, uint32_t{0x7F800000});
}

/// The state that the forward and backward parts change, put back at the end.
class KeptStates {
 public:
  KeptStates(Executable& executable, const std::vector<size_t>& entries) : executable_(executable) {
    const Plan& plan = executable.plan();
    for (const size_t entry : entries) {
      for (const PlannedNode& planned : plan.entries[entry].nodes) {
        const Node& node = planned.node;
        if (node.phase == Phase::update || dynamic_cast<const Assign*>(node.op.get()) == nullptr) continue;
        const Tensor& state = plan.tensors[static_cast<size_t>(node.inputs[Assign::kState])];
        if (state.role == Role::state)
          values_.emplace(node.inputs[Assign::kState], executable.read<double>(node.inputs[0]));
      }
    }
  }
  ~KeptStates() {
    for (const auto& [state, values] : values_) executable_.write(state, values);
  }
  KeptStates(const KeptStates&) = delete;
  KeptStates& operator=(const KeptStates&) = delete;

 private:
  Executable& executable_;
  std::map<TensorId, std::vector<double>> values_;
};

class Search {
 public:
  explicit Search(Executable& executable) : executable_(executable), plan_(executable.plan()) {
    int64_t largest = 0;
    for (size_t i = 0; i < plan_.tensors.size(); ++i) {
      in_step_ = in_step_ || plan_.tensors[i].part || !plan_.tensors[i].stages.empty();
      if (is_floating(plan_.tensors[i].spec.dtype)) largest = std::max(largest, plan_.placements[i].bytes);
    }
    host_ = executable.device().allocate_batch(largest);
  }

  /// Executes nodes until something is found or the update begins. With parameters in parts the ranks gather
  /// them together, so that none may end before the others.
  bool execute(size_t entry) {
    for (size_t i = 0; i < plan_.tensors.size(); ++i) {
      const auto id = static_cast<TensorId>(i);
      if (plan_.tensors[i].role != Role::input || !reads(entry, id) || bad(id) < 0) continue;
      const int64_t row = bad(id) / std::max<int64_t>(1, numel(spec(id).shape) / spec(id).shape[0]);
      find(fmt::format("the input {}, in row {} of the batch", plan_.tensors[i].name, row + 1));
      if (!in_step_) return true;
    }
    executable_.observe([this](const PlannedNode& planned, double, double) { look(planned); });
    try {
      executable_.run(entry);
    } catch (const TraversalEnds&) {
    } catch (...) {
      executable_.observe({});
      throw;
    }
    executable_.observe({});
    return found_.has_value();
  }

  const std::optional<std::string>& found() const { return found_; }
  bool in_step() const { return in_step_; }

 private:
  bool reads(size_t entry, TensorId id) const {
    for (const PlannedNode& planned : plan_.entries[entry].nodes) {
      for (const TensorId input : planned.node.inputs) {
        if (input == id) return true;
      }
    }
    return false;
  }

  /// Throws TraversalEnds if there is nothing more to find.
  void look(const PlannedNode& planned) {
    const Node& node = planned.node;
    if (node.phase == Phase::update) throw TraversalEnds{};
    if (found_ || is_of_others_) return;
    if (dynamic_cast<const CollectiveStart*>(node.op.get()) != nullptr) return note_start(node);
    if (const auto* done = dynamic_cast<const CollectiveDone*>(node.op.get());
        done != nullptr && scattered_.contains(done->number)) {
      for (const TensorId part : node.outputs) is_of_others_ = is_of_others_ || bad(part) >= 0;
      return;
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (bad(node.outputs[o]) < 0) continue;
      find(culprit(node, o));
      if (!in_step_) throw TraversalEnds{};
    }
  }

  void find(const std::string& text) {
    if (!found_) found_ = text;
  }

  /// What is started has no value until it is done.
  void note_start(const Node& node) {
    const auto& start = static_cast<const CollectiveStart&>(*node.op);
    scattered_.erase(start.number);
    const bool comes_from_others =
        dynamic_cast<const ReduceScatterStart*>(&start) != nullptr || start.axis == Axis::pipeline;
    if (comes_from_others) scattered_.insert(start.number);
    if (dynamic_cast<const AllGatherStart*>(&start) == nullptr) return;
    // What ranks compute together was checked by the rank that it comes from.
    if (start.axis == Axis::tensor) scattered_.insert(start.number);
    for (size_t i = 0; i < node.outputs.size(); ++i) gathered_[node.outputs[i]] = node.inputs[i];
  }

  /// The parameter that this is a part of, or of whose part it is a cast.
  std::string name_of_part(TensorId part) const {
    if (const std::string& name = tensor(part).name; !name.empty()) {
      const std::string_view low = state_suffix::kLowPrecisionCopy;
      return tensor(part).role == Role::derived && name.ends_with(low)
                 ? name.substr(0, name.size() - low.size())
                 : name;
    }
    for (const PlannedEntry& entry : plan_.entries) {
      for (const PlannedNode& planned : entry.nodes) {
        const auto& made = planned.node.outputs;
        const auto output = std::ranges::find(made, part);
        if (output != made.end())
          return tensor(read_for(planned.node, static_cast<size_t>(output - made.begin()))).name;
      }
    }
    return "";
  }

  /// A node's place; of many nodes in one, the tensor that the one reads.
  std::string place_of(const Node& node, size_t output) const {
    if (dynamic_cast<const ForEach*>(node.op.get()) != nullptr) return tensor(read_for(node, output)).name;
    return node.origin.path.empty() ? std::string(node.op->name()) : node.origin.path;
  }

  /// What a node of one input, perhaps many such nodes in one, reads for this output.
  static TensorId read_for(const Node& node, size_t output) {
    const auto* each = dynamic_cast<const ForEach*>(node.op.get());
    return node.inputs[each == nullptr ? 0 : output / each->outputs_of_set * each->inputs_of_set];
  }

  /// A node with bad parameters of its own is not to blame.
  std::string culprit(const Node& node, size_t output) {
    const std::string place = place_of(node, output);
    if (dynamic_cast<const CollectiveDone*>(node.op.get()) != nullptr) {
      const auto part = gathered_.find(node.inputs[output]);
      if (part != gathered_.end()) return name_of_part(part->second) + " itself";
    }
    for (const TensorId id : node.inputs) {
      if (id != kNone && is_persistent(tensor(id).role) && bad(id) >= 0) return tensor(id).name + " itself";
    }
    const std::string where = node.origin.where.line > 0 ? " (" + to_string(node.origin.where) + ")" : "";
    if (node.phase == Phase::backward)
      return fmt::format("the gradient of {}{}, in {}", place, where, node.op->name());
    return fmt::format("the output of {}{}, {}", place, where, node.op->name());
  }

  int64_t bad(TensorId id) {
    if (id == kNone || !is_floating(spec(id).dtype)) return -1;
    const int64_t element = plan_.stored_type(id).bytes;
    const int64_t bytes = plan_.placements[static_cast<size_t>(id)].bytes;
    executable_.device().copy_to_host({host_.data(), static_cast<size_t>(bytes)}, executable_.address(id));
    return first_bad(host_.data(), bytes / element, spec(id).dtype, element);
  }

  const Tensor& tensor(TensorId id) const { return plan_.tensors[static_cast<size_t>(id)]; }
  const TensorSpec& spec(TensorId id) const { return tensor(id).spec; }

  Executable& executable_;
  const Plan& plan_;
  Buffer host_;
  std::optional<std::string> found_;
  std::set<int64_t> scattered_;            ///< numbers of those that were started
  std::map<TensorId, TensorId> gathered_;  ///< by what travels, the part that it is made of
  bool in_step_ = false;                   ///< the ranks execute the same nodes
  bool is_of_others_ = false;              ///< a value of another rank, which finds it itself, has come here
};

}  // namespace

std::optional<std::string> find_non_finite(Executable& executable, int64_t micro_batches,
                                           const std::function<void()>& bind) {
  const bool one = micro_batches == 1;
  const bool is_whole = executable.plan().has_entry(entry_name::kTrainStep);
  const size_t first = executable.entry(is_whole ? entry_name::kTrainStep
                                        : one    ? entry_name::kAccumulateOnly
                                                 : entry_name::kAccumulateFirst);
  const size_t next = one ? first : executable.entry(entry_name::kAccumulateNext);
  const KeptStates kept(executable, {first, next});
  Search search(executable);
  std::optional<std::string> found;
  for (int64_t i = 0; i < micro_batches && (!found || search.in_step()); ++i) {
    bind();
    if (!search.execute(i == 0 ? first : next) || found) continue;
    found = *search.found() + (one ? "" : fmt::format(", micro-batch {} of {}", i + 1, micro_batches));
  }
  return found;
}

}  // namespace trainer
