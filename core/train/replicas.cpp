// SPDX-License-Identifier: Apache-2.0
#include "core/train/replicas.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/checksum.h"
#include "core/engine/group_operations.h"
#include "core/host/process.h"

namespace trainer {
namespace {

constexpr size_t kDigits = 16;

/// How a tensor is cut; ranks that hold the same part of such tensors must have the same bits.
struct Cut {
  bool along_tensor = false, along_shards = false;
  bool operator==(const Cut&) const = default;

  static Cut of(const Tensor& tensor) {
    return {tensor.part && tensor.part->sections, tensor.part && tensor.part->is_sharded};
  }
};

/// The tensors that are cut in this way, in the order of the plan.
std::vector<TensorId> replicated(const Plan& plan, const Cut& cut) {
  std::vector<TensorId> found;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const Role role = plan.tensors[i].role;
    const bool is_there = i < plan.placements.size() && plan.placements[i].region == Region::persistent;
    if (is_there && Cut::of(plan.tensors[i]) == cut && (role == Role::parameter || role == Role::state))
      found.push_back(static_cast<TensorId>(i));
  }
  return found;
}

/// A checksum of each, as concatenated digits.
std::string checksums(const Executable& executable, const std::vector<TensorId>& tensors) {
  std::string text;
  std::vector<std::byte> bytes;
  for (const TensorId id : tensors) {
    bytes.resize(static_cast<size_t>(executable.plan().placements[static_cast<size_t>(id)].bytes));
    executable.device().copy_to_host(bytes, executable.address(id));
    text += fmt::format("{:016x}", checksum(bytes));
  }
  return text;
}

/// The ranks that must have the same bits: those that hold the same parts.
class Equals {
 public:
  Equals(const ProcessGroup& group, const Cut& cut) : mesh_(group.mesh()), cut_(cut) {
    for (int64_t rank = 0; rank < group.size(); ++rank) first_.try_emplace(part_of(rank), rank);
  }
  int64_t count() const { return static_cast<int64_t>(first_.size()); }
  int64_t set_of(int64_t rank) const { return std::distance(first_.begin(), first_.find(part_of(rank))); }
  int64_t first_of(int64_t set) const { return std::next(first_.begin(), set)->second; }
  /// Whether some part is held more than once.
  bool has_copies(const ProcessGroup& group) const { return count() < group.size(); }

 private:
  using Place = std::array<int64_t, 3>;

  Place part_of(int64_t rank) const {
    return {cut_.along_tensor ? mesh_.coordinate(Axis::tensor, rank) : 0,
            cut_.along_shards ? mesh_.coordinate(Axis::shards, rank) : 0,
            mesh_.coordinate(Axis::pipeline, rank)};
  }

  Mesh mesh_;
  Cut cut_;
  std::map<Place, int64_t> first_;  ///< by part the first rank that holds it
};

/// Whether all ranks of each set have the same text. Takes small messages, whatever its length.
bool is_same_everywhere(ProcessGroup& group, const Equals& equals, const std::string& text) {
  const uint64_t own = checksum(std::as_bytes(std::span(text)));
  double others = 0;
  for (int64_t set = 0; set < equals.count(); ++set) {
    uint64_t first = own;
    group.broadcast(std::as_writable_bytes(std::span(&first, 1)), equals.first_of(set));
    if (equals.set_of(group.rank()) == set && first != own) others = 1;
  }
  group.all_reduce(std::span(&others, 1));
  return others == 0;
}

/// The most frequent text; of several, that of the first rank.
std::string most_frequent(const std::vector<std::string>& texts) {
  std::map<std::string, int64_t> counts;
  for (const std::string& text : texts) ++counts[text];
  return *std::ranges::max_element(texts, {}, [&](const std::string& text) { return counts.at(text); });
}

std::string nth_line(const std::string& text, size_t n) {
  size_t begin = 0;
  for (; n > 0; --n) begin = text.find('\n', begin) + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

/// What is wrong with one set, if anything is: its ranks' texts, by rank. The names of each rank's tensors
/// are lines.
std::optional<std::string> difference(const std::map<size_t, std::string>& of_set,
                                      const std::vector<std::string>& names_of_tensors,
                                      const std::vector<std::string>& hosts) {
  std::vector<std::string> texts;
  for (const auto& [rank, text] : of_set) texts.push_back(text);
  const std::string right = most_frequent(texts);
  const auto differs = [&](const std::string& text) { return text != right; };
  const auto other = std::ranges::find_if(texts, differs);
  if (other == texts.end()) return std::nullopt;
  // Half of them may be the wrong half.
  const bool is_undecided = 2 * std::ranges::count(texts, right) <= static_cast<int64_t>(texts.size());
  std::vector<std::string> names;
  for (const auto& [rank, text] : of_set) {
    if (is_undecided || differs(text)) names.push_back(fmt::format("rank {} on {}", rank, hosts[rank]));
  }
  const auto digit = static_cast<size_t>(std::ranges::mismatch(*other, right).in1 - other->begin());
  return fmt::format("{} {} other bits in {}", fmt::join(names, " and "), names.size() == 1 ? "has" : "have",
                     nth_line(names_of_tensors.at(of_set.begin()->first), digit / kDigits));
}

void require_equal(const Executable& executable, ProcessGroup& group, const Cut& cut, int64_t step) {
  const std::vector<TensorId> tensors = replicated(executable.plan(), cut);
  const Equals equals(group, cut);
  const bool has_none = tensors.empty() && group.mesh().stages == 1;  // other stages may have some
  if (has_none || !equals.has_copies(group)) return;
  const std::string own = checksums(executable, tensors);
  if (is_same_everywhere(group, equals, own)) return;
  std::string names;
  for (const TensorId id : tensors) names += executable.plan().tensors[static_cast<size_t>(id)].name + "\n";
  const std::vector<std::string> texts = all_gather(group, own), hosts = all_gather(group, host_name()),
                                 all_names = all_gather(group, names);
  for (int64_t set = 0; set < equals.count(); ++set) {
    std::map<size_t, std::string> of_set;
    for (size_t rank = 0; rank < texts.size(); ++rank) {
      if (equals.set_of(static_cast<int64_t>(rank)) == set) of_set[rank] = texts[rank];
    }
    if (const auto found = difference(of_set, all_names, hosts)) {
      throw ReplicasDiffer(
          fmt::format("after step {} the ranks' weights are not the same: {}; look for faulty "
                      "memory there, and resume from a checkpoint",
                      step, *found));
    }
  }
}

}  // namespace

void require_equal_replicas(const Executable& executable, ProcessGroup& group, int64_t step) {
  for (const Cut& cut : {Cut{false, false}, Cut{true, false}, Cut{false, true}, Cut{true, true}})
    require_equal(executable, group, cut, step);
}

}  // namespace trainer
