// SPDX-License-Identifier: Apache-2.0
#include "core/train/replicas.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/base/checksum.h"
#include "core/engine/group_operations.h"
#include "core/host/process.h"

namespace trainer {
namespace {

constexpr size_t kDigits = 16;

/// The tensors that must be equal on all ranks, in the order of the plan. Of parts there is one each.
std::vector<TensorId> replicated(const Plan& plan) {
  std::vector<TensorId> found;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const Role role = plan.tensors[i].role;
    const bool is_there = i < plan.placements.size() && plan.placements[i].region == Region::persistent;
    if (is_there && !plan.tensors[i].part && (role == Role::parameter || role == Role::state))
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

/// Whether all ranks have the same text. Takes two small messages, whatever its length and the number of
/// ranks.
bool is_same_everywhere(ProcessGroup& group, const std::string& text) {
  const uint64_t own = checksum(std::as_bytes(std::span(text)));
  uint64_t first = own;
  group.broadcast(std::as_writable_bytes(std::span(&first, 1)));
  double others = first == own ? 0 : 1;
  group.all_reduce(std::span(&others, 1));
  return others == 0;
}

/// The most frequent text; of several, that of the first rank.
std::string most_frequent(const std::vector<std::string>& texts) {
  std::map<std::string, int64_t> counts;
  for (const std::string& text : texts) ++counts[text];
  return *std::ranges::max_element(texts, {}, [&](const std::string& text) { return counts.at(text); });
}

}  // namespace

void require_equal_replicas(const Executable& executable, ProcessGroup& group, int64_t step) {
  const std::vector<TensorId> tensors = replicated(executable.plan());
  const std::string own = checksums(executable, tensors);
  if (is_same_everywhere(group, own)) return;
  const std::vector<std::string> texts = all_gather(group, own);
  const std::string right = most_frequent(texts);
  const auto differs = [&](const std::string& text) { return text != right; };
  const std::vector<std::string> hosts = all_gather(group, host_name());
  // Half of them may be the wrong half.
  const bool is_undecided = 2 * std::ranges::count(texts, right) <= static_cast<int64_t>(texts.size());
  std::vector<std::string> names;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (is_undecided || differs(texts[rank]))
      names.push_back(fmt::format("rank {} on {}", rank, hosts[rank]));
  }
  const std::string& other = *std::ranges::find_if(texts, differs);
  const auto digit = static_cast<size_t>(std::ranges::mismatch(other, right).in1 - other.begin());
  const Tensor& tensor = executable.plan().tensors[static_cast<size_t>(tensors.at(digit / kDigits))];
  throw ReplicasDiffer(fmt::format(
      "after step {} the ranks' weights are not the same: {} {} other bits in {}; look for faulty "
      "memory there, and resume from a checkpoint",
      step, fmt::join(names, " and "), names.size() == 1 ? "has" : "have", tensor.name));
}

}  // namespace trainer
