// SPDX-License-Identifier: Apache-2.0
#include "core/run/weight_names.h"

#include <algorithm>
#include <array>
#include <set>

namespace trainer {
namespace {

/// Added by DistributedDataParallel, by classes that hold the network, and by torch.compile.
constexpr std::array<const char*, 3> kPrefixes = {"module.", "model.", "_orig_mod."};

/// Batches that batch normalisation has counted, causal masks, and the frequencies and positions of tokens.
bool is_buffer(const StoredTensor& stored) {
  const Shape& shape = stored.shape;
  const bool is_mask = shape.size() == 4 && shape[0] == 1 && shape[1] == 1 && shape[2] == shape[3];
  const std::string name = "." + stored.name;
  return name.ends_with(".num_batches_tracked") || (name.ends_with(".attn.bias") && is_mask) ||
         (name.ends_with(".attn.masked_bias") && shape.empty()) || name.ends_with(".rotary_emb.inv_freq") ||
         name.ends_with(".position_ids");
}

/// The first part of all names, as "transformer."; empty if they differ.
std::string common_part(std::span<const Tensor* const> weights) {
  if (weights.empty()) return "";
  const std::string& name = weights[0]->name;
  const std::string part = name.substr(0, name.find('.') + 1);
  const bool is_common =
      std::ranges::all_of(weights, [&](const Tensor* each) { return each->name.starts_with(part); });
  return is_common ? part : "";
}

class Matching {
 public:
  Matching(std::span<const Tensor* const> weights, const TiedNames& tied)
      : common_(common_part(weights)), tied_(tied) {
    for (const Tensor* weight : weights) names_.insert(weight->name);
  }

  WeightNames match(const SafetensorsFile& file) {
    std::vector<const StoredTensor*> open;
    for (const StoredTensor& stored : file.tensors()) {
      if (file.is_scale(stored)) continue;  // it is read with the tensor that it belongs to
      if (!take(names_.contains(stored.name) ? stored.name : "", stored)) open.push_back(&stored);
    }
    for (const StoredTensor* stored : open) {
      if (!take_renamed(*stored)) others_.push_back(stored);
    }
    for (const StoredTensor* stored : others_) settle(*stored);
    return std::move(result_);
  }

 private:
  bool take(const std::string& name, const StoredTensor& stored) {
    return !name.empty() && result_.found.emplace(name, &stored).second;
  }

  /// Under the first of its shorter names that the network has.
  bool take_renamed(const StoredTensor& stored) {
    for (const std::string& shorter : shorter_names(stored.name)) {
      for (const std::string& name : {shorter, common_ + shorter}) {
        if (!names_.contains(name) || !take(name, stored)) continue;
        note_prefix(stored.name, shorter);
        return true;
      }
    }
    return false;
  }

  /// A tied weight's second name, a buffer, or a tensor of another network.
  void settle(const StoredTensor& stored) {
    for (const std::string& shorter : shorter_names(stored.name)) {
      const auto tied = tied_.find(shorter);
      if (tied == tied_.end()) continue;
      if (take(tied->second, stored)) return note_prefix(stored.name, shorter);
      const StoredTensor* original = result_.find(tied->second);
      if (original->shape == stored.shape) return result_.copies.push_back({&stored, original});
    }
    (is_buffer(stored) ? result_.buffers : result_.unexpected).push_back(&stored);
  }

  /// The name itself, then without one prefix after the other.
  static std::vector<std::string> shorter_names(const std::string& name) {
    std::vector<std::string> names = {name};
    for (bool is_shorter = true; is_shorter;) {
      is_shorter = false;
      for (const std::string prefix : kPrefixes) {
        if (!names.back().starts_with(prefix)) continue;
        names.push_back(names.back().substr(prefix.size()));
        is_shorter = true;
      }
    }
    return names;
  }

  void note_prefix(const std::string& name, const std::string& shorter) {
    const std::string prefix = name.substr(0, name.size() - shorter.size());
    if (!prefix.empty() && std::ranges::find(result_.prefixes, prefix) == result_.prefixes.end())
      result_.prefixes.push_back(prefix);
  }

  std::string common_;
  const TiedNames& tied_;
  std::set<std::string> names_;
  std::vector<const StoredTensor*> others_;
  WeightNames result_;
};

}  // namespace

WeightNames match_names(std::span<const Tensor* const> weights, const TiedNames& tied,
                        const SafetensorsFile& file) {
  return Matching(weights, tied).match(file);
}

}  // namespace trainer
