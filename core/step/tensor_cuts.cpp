// SPDX-License-Identifier: Apache-2.0
#include "core/step/tensor_cuts.h"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "core/graph/names.h"
#include "core/graph/operation.h"
#include "core/graph/ops/embedding.h"
#include "core/graph/ops/linear.h"

namespace trainer {
namespace {

/// A product of activations with a parameter, before fusions.
bool is_product(const Program& program, const Node& node) {
  if (dynamic_cast<const Linear*>(node.op.get()) == nullptr) return false;
  const auto is_parameter = [&](TensorId id) {
    return id == kNone || program.tensor(id).role == Role::parameter;
  };
  return is_parameter(node.inputs[Linear::kWeight]) && is_parameter(node.inputs[Linear::kBias]);
}

/// Products and what is between them, which ranks can share by features.
struct Region {
  std::vector<size_t> entering;  ///< products that make the features
  std::vector<size_t> leaving;   ///< products that read them
  std::vector<size_t> inside;    ///< nodes between
  std::vector<size_t> judging;   ///< losses and metrics that read them
  std::map<TensorId, std::vector<int64_t>> sections;

  bool is_judged() const { return !judging.empty(); }
};

/// Finds the cuts of one entry.
class EntryCuts {
 public:
  EntryCuts(const Program& program, const Entry& entry, int64_t ranks, const std::set<TensorId>& refused)
      : program_(program), entry_(entry), ranks_(ranks), refused_(refused) {
    for (size_t n = 0; n < entry.nodes.size(); ++n) {
      for (const TensorId id : entry.nodes[n].outputs) maker_[id] = n;
      for (const TensorId id : entry.nodes[n].inputs) readers_[id].push_back(n);
    }
    for (const NamedTensor& output : entry.outputs) {
      if (output.name != output_name::kLogits) put_out_.insert(output.tensor);
    }
  }

  TensorCuts run() {
    for (size_t n = 0; n < entry_.nodes.size(); ++n) {
      if (!is_product(program_, entry_.nodes[n]) || used_.contains(n)) continue;
      if (const auto region = explore(n)) take(*region);
    }
    for (const Node& node : entry_.nodes) {
      const auto* op = dynamic_cast<const Embedding*>(node.op.get());
      if (op != nullptr) take_table(node.inputs[Embedding::kTable]);
    }
    return std::move(cuts_);
  }

  /// Parameters that something reads that is not cut with them.
  std::vector<TensorId> read_whole(const TensorCuts& cuts) const {
    std::vector<TensorId> found;
    for (const auto& cut : cuts.parameters) {
      const auto readers = readers_.find(cut.first);
      if (readers == readers_.end()) continue;
      const auto is_cut_too = [&](size_t n) { return reads_cut(n, cut.first, cut.second); };
      if (!std::ranges::all_of(readers->second, is_cut_too)) found.push_back(cut.first);
    }
    return found;
  }

 private:
  const Node& node(size_t n) const { return entry_.nodes[n]; }

  /// The region of the features that product `first` makes; nothing if ranks cannot share it.
  std::optional<Region> explore(size_t first) {
    Region region;
    std::set<TensorId> features = {node(first).outputs[Linear::kY]};
    if (!follow(region, features)) return std::nullopt;
    const auto reads_others = [&](size_t n) { return !reads_by_features(n, features); };
    if (std::ranges::any_of(region.inside, reads_others) || std::ranges::any_of(region.judging, reads_others))
      return std::nullopt;
    const auto leaves_too = [&](size_t n) {
      return std::ranges::find(region.leaving, n) != region.leaving.end();
    };
    if (std::ranges::any_of(region.entering, leaves_too)) return std::nullopt;
    if (region.is_judged() != region.leaving.empty()) return std::nullopt;
    if (!find_sections(region, features) || !is_possible(region)) return std::nullopt;
    return region;
  }

  /// Adds all features that nodes connect with these, and the nodes; false if something else makes or reads
  /// them.
  bool follow(Region& region, std::set<TensorId>& features) {
    std::vector<TensorId> open(features.begin(), features.end());
    const auto reach = [&](TensorId id) {
      if (id != kNone && features.insert(id).second) open.push_back(id);
    };
    std::set<size_t> visited;
    while (!open.empty()) {
      const TensorId id = open.back();
      open.pop_back();
      const auto made = maker_.find(id);
      if (made == maker_.end() || put_out_.contains(id)) return false;
      std::vector<size_t> around = readers_[id];
      around.push_back(made->second);
      for (const size_t n : around) {
        if (is_product(program_, node(n))) {
          const bool makes = n == made->second;
          if (used_.contains(n) || (!makes && node(n).inputs[Linear::kX] != id)) return false;
          std::vector<size_t>& list = makes ? region.entering : region.leaving;
          if (std::ranges::find(list, n) == list.end()) list.push_back(n);
          continue;
        }
        if (!visited.insert(n).second) continue;
        const auto cut = node(n).op->feature_cut(specs_of(program_.tensors, node(n).inputs));
        if (!cut) return false;
        for (const size_t i : cut->inputs) reach(node(n).inputs[i]);
        (cut->ends ? region.judging : region.inside).push_back(n);
        if (!cut->ends) reach(node(n).outputs[0]);
      }
    }
    return true;
  }

  /// Whether the region's tensors are inputs that the operation cuts.
  bool reads_by_features(size_t n, const std::set<TensorId>& tensors) const {
    const auto cut = node(n).op->feature_cut(specs_of(program_.tensors, node(n).inputs));
    for (size_t i = 0; i < node(n).inputs.size(); ++i) {
      const bool is_cut = std::ranges::find(cut->inputs, i) != cut->inputs.end();
      if (!is_cut && tensors.contains(node(n).inputs[i])) return false;
    }
    return true;
  }

  /// What operations say of sections holds for all tensors that they connect.
  bool find_sections(Region& region, const std::set<TensorId>& tensors) {
    bool is_consistent = true, changes = true;
    const auto set = [&](TensorId id, const std::vector<int64_t>& sections) {
      const auto [known, fresh] = region.sections.try_emplace(id, sections);
      changes = changes || fresh;
      is_consistent = is_consistent && known->second == sections;
    };
    const auto connect = [&](TensorId a, TensorId b) {
      if (const auto of = region.sections.find(a); of != region.sections.end())
        set(b, std::vector(of->second));
      if (const auto of = region.sections.find(b); of != region.sections.end())
        set(a, std::vector(of->second));
    };
    const auto spread = [&] {
      while (std::exchange(changes, false) && is_consistent) {
        for (const size_t n : region.inside) {
          const auto cut = node(n).op->feature_cut(specs_of(program_.tensors, node(n).inputs));
          const TensorId y = node(n).outputs[0];
          if (!cut->of_output.empty()) set(y, cut->of_output);
          for (size_t i = 0; i < cut->inputs.size(); ++i) {
            const TensorId x = node(n).inputs[cut->inputs[i]];
            if (i < cut->of_inputs.size()) {
              set(x, cut->of_inputs[i]);
            } else {
              connect(x, y);
            }
          }
        }
      }
    };
    spread();
    for (const TensorId id : tensors) {
      if (region.sections.contains(id)) continue;
      set(id, {program_.spec(id).shape.back()});
      spread();
    }
    return is_consistent;
  }

  /// Whether the parts are equal, and no parameter is cut in another way or was refused. The classes of
  /// logits have padding.
  bool is_possible(const Region& region) {
    if (!can_share_inside(region)) return false;
    for (const auto& [id, sections] : region.sections) {
      const bool divides = std::ranges::all_of(sections, [&](int64_t each) { return each % ranks_ == 0; });
      if (divides || region.is_judged()) continue;
      const Node& first = node(region.entering.front());
      if (!cuts_.uneven)
        cuts_.uneven = {first.origin.path, program_.spec(first.outputs[Linear::kY]).shape.back()};
      return false;
    }
    TensorCuts with_region = cuts_;
    return add_cuts(region, with_region);
  }

  /// Whether the operations inside can be shared in these sections. One that has sections of its own says why
  /// not: a network with attention is meant to be shared.
  bool can_share_inside(const Region& region) const {
    for (const size_t n : region.inside) {
      const Node& each = node(n);
      const TensorId y = each.outputs[0];
      const auto cut = each.op->feature_cut(specs_of(program_.tensors, each.inputs));
      try {
        each.op->on_part({.along = {Axis::tensor, ranks_},
                          .whole = program_.spec(y).shape,
                          .sections = region.sections.at(y)});
      } catch (const std::invalid_argument& problem) {
        if (!cut->of_output.empty()) fail_at(each.origin, problem.what());
        return false;
      }
    }
    return true;
  }

  void take(const Region& region) {
    add_cuts(region, cuts_);
    used_.insert(region.entering.begin(), region.entering.end());
    used_.insert(region.leaving.begin(), region.leaving.end());
  }

  /// False if one was refused, or its parameter is cut in another way.
  bool add_cuts(const Region& region, TensorCuts& cuts) const {
    bool fits = true;
    const auto cut = [&](TensorId parameter, size_t dimension, const std::vector<int64_t>& sections) {
      if (parameter == kNone) return;
      const auto [known, fresh] = cuts.parameters.try_emplace(parameter, Sections{dimension, sections});
      fits = fits && !refused_.contains(parameter) && known->second == Sections{dimension, sections};
    };
    for (const size_t n : region.entering) {
      const auto& sections = region.sections.at(node(n).outputs[Linear::kY]);
      cut(node(n).inputs[Linear::kWeight], is_transposed(n) ? 1 : 0, sections);
      cut(node(n).inputs[Linear::kBias], 0, sections);
    }
    for (const size_t n : region.leaving)
      cut(node(n).inputs[Linear::kWeight], is_transposed(n) ? 0 : 1,
          region.sections.at(node(n).inputs[Linear::kX]));
    cuts.features.insert(region.sections.begin(), region.sections.end());
    return fits;
  }

  bool is_transposed(size_t n) const { return static_cast<const Linear&>(*node(n).op).transposed; }

  void take_table(TensorId table) {
    if (program_.tensor(table).role != Role::parameter || refused_.contains(table)) return;
    cuts_.parameters.try_emplace(table, Sections{0, {program_.spec(table).shape[0]}});
  }

  bool reads_cut(size_t n, TensorId parameter, const Sections& cut) const {
    const Sections rows{0, {program_.spec(parameter).shape[0]}};
    if (dynamic_cast<const Embedding*>(node(n).op.get()) != nullptr)
      return node(n).inputs[Embedding::kTable] == parameter && cut == rows;
    return used_.contains(n);
  }

  const Program& program_;
  const Entry& entry_;
  int64_t ranks_;
  const std::set<TensorId>& refused_;
  std::map<TensorId, size_t> maker_;
  std::map<TensorId, std::vector<size_t>> readers_;
  std::set<TensorId> put_out_;
  std::set<size_t> used_;  ///< products that are cut
  TensorCuts cuts_;
};

/// Parameters that an entry reads.
std::set<TensorId> parameters_of(const Program& program, const Entry& entry) {
  std::set<TensorId> found;
  for (const Node& node : entry.nodes) {
    for (const TensorId id : node.inputs) {
      if (id != kNone && program.tensor(id).role == Role::parameter) found.insert(id);
    }
  }
  return found;
}

}  // namespace

TensorCuts find_tensor_cuts(const Program& program, int64_t ranks) {
  std::set<TensorId> refused;
  while (true) {
    std::map<TensorId, std::optional<Sections>> first;  // how the first entry that reads it cuts a parameter
    std::set<TensorId> unfit;
    TensorCuts all;
    for (const Entry& entry : program.entries) {
      EntryCuts of_entry(program, entry, ranks, refused);
      TensorCuts cuts = of_entry.run();
      for (const TensorId id : of_entry.read_whole(cuts)) unfit.insert(id);
      for (const TensorId id : parameters_of(program, entry)) {
        const auto found = cuts.parameters.find(id);
        const std::optional<Sections> cut =
            found == cuts.parameters.end() ? std::nullopt : std::optional(found->second);
        if (first.try_emplace(id, cut).first->second != cut) unfit.insert(id);
      }
      all.parameters.merge(cuts.parameters);
      all.features.merge(cuts.features);
      if (!all.uneven) all.uneven = cuts.uneven;
    }
    const size_t before = refused.size();
    refused.merge(unfit);
    // Without a parameter its region is not cut at all.
    if (refused.size() == before) return all;
  }
}

}  // namespace trainer
