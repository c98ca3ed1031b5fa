// SPDX-License-Identifier: Apache-2.0
#include "core/import/torch_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "core/base/printable.h"
#include "core/import/pruned_weight.h"
#include "core/import/remedies.h"
#include "core/import/tensor_name.h"

namespace trainer {
namespace {

using Kind = PickleValue::Kind;

constexpr std::array kStateKeys = {"state_dict", "model", "model_state_dict"};
constexpr std::string_view kWrapper = "module.";  // of DataParallel
constexpr size_t kMostNamed = 6;                  // of ignored entries, in the remark

bool has_tensors(const Pickle& pickle, const PickleValue& value) {
  if (value.kind != Kind::map) return false;
  const auto& items = pickle.items_of(value);
  for (size_t i = 0; i + 1 < items.size(); i += 2)
    if (items[i].kind == Kind::text && is_tensor(pickle, items[i + 1])) return true;
  return false;
}

/// The entries of a map; of several with one key the last counts.
class Entries {
 public:
  Entries(const Pickle& pickle, const PickleValue& map) {
    const auto& items = pickle.items_of(map);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (items[i].kind != Kind::text) {
        ++unnamed_;
        continue;
      }
      const std::string_view key = pickle.bytes_of(items[i]);
      const auto [place, is_new] = places_.emplace(key, entries_.size());
      if (is_new) entries_.emplace_back(key, items[i + 1]);
      entries_[place->second].second = items[i + 1];
    }
  }
  const PickleValue* find(std::string_view key) const {
    const auto found = places_.find(key);
    return found == places_.end() ? nullptr : &entries_[found->second].second;
  }
  const std::vector<std::pair<std::string_view, PickleValue>>& all() const { return entries_; }
  size_t unnamed() const { return unnamed_; }

 private:
  std::vector<std::pair<std::string_view, PickleValue>> entries_;
  std::map<std::string_view, size_t> places_;
  size_t unnamed_ = 0;  // keys that are no texts
};

/// What is not imported.
class Ignored {
 public:
  void add(std::string_view name) {
    if (++count_ <= kMostNamed) names_ += (names_.empty() ? "" : ", ") + one_line(name.substr(0, 80));
  }
  void add_unnamed(size_t count) { count_ += count; }
  std::string remark() const {
    if (count_ == 0) return "";
    const char* what = count_ == 1 ? "entry that is no weight was" : "entries that are no weights were";
    std::string text = fmt::format("{} {} ignored", count_, what);
    if (!names_.empty()) text += ": " + names_ + (count_ > kMostNamed ? ", …" : "");
    return text;
  }

 private:
  size_t count_ = 0;
  std::string names_;
};

/// The part of a name after its last dot.
std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

void check_name(const Pickle& pickle, const std::string& name) {
  const auto fail = [&](const std::string& text) {
    pickle.fail(static_cast<int64_t>(pickle.position()) - 1,
                fmt::format("tensor '{}': {}", one_line(name), text));
  };
  if (!is_tensor_name(name)) {
    fail(kRenameTensor);
  }
  const std::string_view last = last_part(name);
  if (last == "weight_g" || last == "weight_v") {
    fail(
        "is a part of a weight norm or a spectral norm, expected the weight; call "
        "torch.nn.utils.remove_weight_norm or remove_spectral_norm before saving");
  }
  if (name.find("parametrizations.") != std::string::npos) {
    fail(
        "is a part of a parametrised weight, expected the weight; call "
        "torch.nn.utils.parametrize.remove_parametrizations before saving");
  }
}

void remove_wrapper(TorchState& state) {
  const auto is_wrapped = [](const TorchTensor& tensor) {
    const std::string& name = tensor.stored.name;
    return name.starts_with(kWrapper) && is_tensor_name(name.substr(kWrapper.size()));
  };
  if (!std::ranges::all_of(state.tensors, is_wrapped)) return;
  for (TorchTensor& tensor : state.tensors) tensor.stored.name.erase(0, kWrapper.size());
  state.remarks.push_back(fmt::format("the prefix '{}' was removed from all names", kWrapper));
}

}  // namespace

TorchState read_torch_state(const Pickle& pickle, const PickleValue& value) {
  const auto fail = [&](const std::string& found) {
    pickle.fail(static_cast<int64_t>(pickle.position()) - 1,
                fmt::format("expected a map from names to tensors, found {}. {}", found, kSaveWeights));
  };
  if (value.kind != Kind::map) fail(kind_name(value.kind));
  Ignored ignored;
  PickleValue chosen = value;
  const Entries root(pickle, value);
  for (const char* key : kStateKeys) {
    const PickleValue* below = root.find(key);
    if (below == nullptr || !has_tensors(pickle, *below)) continue;
    chosen = *below;
    for (const auto& [name, entry] : root.all())
      if (name != key) ignored.add(name);
    ignored.add_unnamed(root.unnamed());
    break;
  }
  if (!has_tensors(pickle, chosen)) fail("a map without tensors");
  TorchState state;
  const Entries entries(pickle, chosen);
  ignored.add_unnamed(entries.unnamed());
  for (const auto& [name, entry] : entries.all()) {
    if (!is_tensor(pickle, entry)) {
      ignored.add(name);
      continue;
    }
    check_name(pickle, std::string(name));
    state.tensors.push_back(tensor_of(pickle, entry, std::string(name)));
  }
  if (const std::string remark = ignored.remark(); !remark.empty()) state.remarks.push_back(remark);
  if (const auto misshapen = join_masks(state.tensors); !misshapen.empty()) {
    pickle.fail(static_cast<int64_t>(pickle.position()) - 1,
                fmt::format("mask '{}' does not have its weight's shape; {}", one_line(misshapen.front()),
                            kRemovePruning));
  }
  const auto masked =
      std::ranges::count_if(state.tensors, [](const TorchTensor& tensor) { return tensor.mask != nullptr; });
  if (masked > 0) {
    state.remarks.push_back(fmt::format("{} weight{} multiplied by the mask of torch.nn.utils.prune", masked,
                                        masked == 1 ? " was" : "s were"));
  }
  remove_wrapper(state);
  return state;
}

}  // namespace trainer
