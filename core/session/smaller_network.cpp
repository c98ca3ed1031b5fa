// SPDX-License-Identifier: Apache-2.0
#include "core/session/smaller_network.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "core/base/directory.h"
#include "core/base/printable.h"
#include "core/config/messages.h"
#include "core/config/patterns.h"
#include "core/recipe/assemble.h"
#include "core/run/weights.h"
#include "core/session/smaller_recipe.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecipeFile = "recipe.yaml";
constexpr const char* kWeightsFile = "model.safetensors";

Program forward_of_one(const RunSpec& spec) {
  return forward_program(spec.with_micro_batch(1), {.purpose = Purpose::predict});
}

/// Names of layers by the places of their nodes.
std::map<std::string, std::string> layer_names(const Network& network) {
  std::map<std::string, std::string> names;
  for (size_t i = 0; i < network.layers.size(); ++i)
    names[network.layers[i]->origin.path] = network.layer_name(i);
  return names;
}

/// By weight of the network, the names that patterns may have for it: its own, and those of the layers that
/// read it.
using NamesOfWeights = std::map<TensorId, std::set<std::string>>;

NamesOfWeights names_of_weights(const Program& program, const std::map<std::string, std::string>& layers) {
  NamesOfWeights names;
  for (const Node& node : SmallerNetwork::entry_of(program).nodes) {
    for (const TensorId id : node.inputs) {
      if (id != kNone && is_weight(program.tensor(id)))
        names[id].insert({program.tensor(id).name, layers.at(node.origin.path)});
    }
  }
  return names;
}

void require_match(const std::string& pattern, const NamesOfWeights& weights) {
  std::vector<std::string> all;
  for (const auto& [id, names] : weights) all.insert(all.end(), names.begin(), names.end());
  if (std::ranges::any_of(all, [&](const std::string& name) { return matches(pattern, name); })) return;
  const auto near = nearest(pattern, all);
  throw Error(ExitCode::usage,
              fmt::format("--except '{}' matches no layer with weights and none of their parameters{}",
                          shown(pattern), near ? fmt::format("; did you mean '{}'?", shown(*near)) : ""));
}

/// Whether a pattern names what makes or normalises the group's channels, not only what reads them.
bool is_excepted(const ChannelGroup& group, const NamesOfWeights& weights,
                 const std::vector<std::string>& patterns) {
  return std::ranges::any_of(group.axes, [&](const ChannelAxis& axis) {
    const auto is_named = [&](const std::string& name) { return matches_any(patterns, name); };
    return axis.use != ChannelUse::reads && std::ranges::any_of(weights.at(axis.tensor), is_named);
  });
}

/// Removes the least important channels of a group, or says why it keeps all.
void choose(SmallerNetwork& smaller, ChannelGroup& group, const TensorValues& values,
            const PruneRequest& request) {
  const size_t kept = kept_count(group.channels.size(), group.width, request.kept);
  if (request.by == Importance::gamma && !has_use(group, ChannelUse::scales)) {
    group.stays = "no batch normalisation, which --by gamma needs";
  } else if (group.channels.size() == 1 && group.width > 1) {
    group.stays = "all its channels are coupled";
  } else if (kept == group.channels.size()) {
    group.stays = fmt::format("--keep, rounded up to a multiple of {}, keeps all", request.kept.multiple);
  }
  if (!group.stays.empty()) return;
  const std::vector<double> all = importances(smaller.before, smaller.channels, group, request.by, values);
  for (const size_t i : least(all, kept)) smaller.removed[group.channels[i]] = true;
}

[[noreturn]] void refuse_all(const Recipe& recipe, const CoupledChannels& channels,
                             const PruneRequest& request) {
  const Origin origin = recipe.origin_of("model.layers");
  const auto is_scaled = [](const ChannelGroup& group) { return has_use(group, ChannelUse::scales); };
  if (request.by == Importance::gamma && std::ranges::none_of(channels.groups, is_scaled))
    fail_at(origin, "no layer's channels have a batch normalisation, which --by gamma reads; use --by l1");
  std::vector<std::string> reasons;
  for (const ChannelGroup& group : channels.groups) {
    if (std::ranges::find(reasons, group.stays) == reasons.end()) reasons.push_back(group.stays);
  }
  fail_at(origin, fmt::format("there is no channel to remove: {}",
                              reasons.empty() ? "no layer has weights that make channels"
                                              : fmt::format("{}", fmt::join(reasons, "; "))));
}

/// The new directory under a name of its own until it is complete.
class DirectoryInProgress {
 public:
  explicit DirectoryInProgress(const fs::path& path) {
    if (path.empty()) throw Error(ExitCode::usage, "--out is empty; name the directory to write");
    // A link that leads nowhere exists, too.
    const bool exists = fs::exists(fs::symlink_status(path));
    if (exists && !(fs::is_directory(path) && directory_entries(path).empty()))
      throw Error(ExitCode::usage,
                  fmt::format("{}: exists and is not an empty directory; name another one with --out",
                              one_line(path.string())));
    // A link stays, and the directory that it leads to is replaced.
    const fs::path whole = fs::weakly_canonical(fs::absolute(path));
    path_ = whole.has_filename() ? whole : whole.parent_path();
    partial_ = path_.string() + fmt::format(".{}.partial", ::getpid());
    fs::create_directories(partial_);
  }
  ~DirectoryInProgress() {
    if (!partial_.empty()) remove_tree(partial_);
  }
  DirectoryInProgress(const DirectoryInProgress&) = delete;
  DirectoryInProgress& operator=(const DirectoryInProgress&) = delete;

  const fs::path& partial() const { return partial_; }
  void finish() {
    fs::rename(partial_, path_);
    partial_.clear();
  }

 private:
  fs::path path_, partial_;
};

void write_weights(const SmallerNetwork& smaller, const TensorValues& values, const StoredMetadata& metadata,
                   const fs::path& path) {
  std::vector<TensorId> ids;
  std::vector<StoredTensor> stored;
  for (size_t i = 0; i < smaller.before.tensors.size(); ++i) {
    const Tensor& tensor = smaller.before.tensors[i];
    if (!is_weight(tensor)) continue;
    ids.push_back(static_cast<TensorId>(i));
    stored.push_back({.name = tensor.name, .shape = smaller.shape_after(ids.back())});
  }
  write_safetensors(path, stored, metadata, [&](size_t i, const ByteSink& sink) {
    const std::vector<float> kept = cut_values(smaller.before, smaller.channels, smaller.removed, ids[i],
                                               values(smaller.before.tensor(ids[i])));
    sink(std::as_bytes(std::span(kept)));
  });
}

/// The forward part of the recipe with this text, which is called `path` from now on: its layers have places
/// in that file. A layer may refuse its new sizes.
Program read_again(const std::string& text, const fs::path& path) try {
  return forward_of_one(Recipe::parse(text, path.string(), {}));
} catch (const Error& problem) {
  if (problem.code() != ExitCode::recipe) throw;
  throw Error(
      ExitCode::recipe,
      fmt::format("the smaller network is not possible: {}\nkeep the channels of that layer with --except",
                  problem.what()));
}

/// Throws Error (exit 78) at the first layer that does not have the sizes which remain.
void compare(const SmallerNetwork& smaller, const Program& after) {
  const std::vector<Node>& old = SmallerNetwork::entry_of(smaller.before).nodes;
  const std::vector<Node>& now = SmallerNetwork::entry_of(after).nodes;
  for (size_t n = 0; n < std::max(old.size(), now.size()); ++n) {
    const bool is_same_operation = n < old.size() && n < now.size() && old[n].op->name() == now[n].op->name();
    const auto fits = [&](const std::vector<TensorId>& from, const std::vector<TensorId>& to) {
      return std::ranges::equal(from, to, [&](TensorId a, TensorId b) {
        return a == kNone ? b == kNone : b != kNone && smaller.shape_after(a) == after.spec(b).shape;
      });
    };
    if (is_same_operation && fits(old[n].inputs, now[n].inputs) && fits(old[n].outputs, now[n].outputs))
      continue;
    fail_at(
        old[std::min(n, old.size() - 1)].origin,
        "no value of this layer's keys gives the size that its channels would have; keep them with --except");
  }
}

}  // namespace

const Entry& SmallerNetwork::entry_of(const Program& program) {
  return *program.find_entry(entry_name::kPredict);
}

SmallerNetwork choose_channels(const RunSpec& spec, const TensorValues& values, const PruneRequest& request) {
  SmallerNetwork smaller{.before = forward_of_one(spec), .channels = {}, .removed = {}};
  const std::map<std::string, std::string> layers = layer_names(spec.recipe().model);
  smaller.channels = find_channels(smaller.before, SmallerNetwork::entry_of(smaller.before),
                                   [&](const Origin& origin) { return layers.at(origin.path); });
  smaller.removed.resize(smaller.channels.count);
  const NamesOfWeights weights = names_of_weights(smaller.before, layers);
  for (const std::string& pattern : request.except) require_match(pattern, weights);
  for (ChannelGroup& group : smaller.channels.groups) {
    if (group.stays.empty() && is_excepted(group, weights, request.except)) group.stays = "--except names it";
    if (group.stays.empty()) choose(smaller, group, values, request);
  }
  const bool removes = std::ranges::find(smaller.removed, true) != smaller.removed.end();
  if (!removes && request.kept.share < 1) refuse_all(spec.recipe(), smaller.channels, request);
  return smaller;
}

Program write_smaller(const SmallerNetwork& smaller, const RunSpec& spec, const TensorValues& values,
                      const StoredMetadata& metadata, const fs::path& directory) {
  const Recipe& recipe = spec.recipe();
  DirectoryInProgress progress(directory);
  const fs::path weights = progress.partial() / kWeightsFile;
  const ShapeOf shape_after = [&](TensorId id) { return smaller.shape_after(id); };
  const std::string text = smaller_recipe(recipe, smaller.before, SmallerNetwork::entry_of(smaller.before),
                                          shape_after, kWeightsFile);
  write_atomically(progress.partial() / kRecipeFile, text);
  write_weights(smaller, values, metadata, weights);
  Program after = read_again(text, directory / kRecipeFile);
  compare(smaller, after);
  check_weights(after.tensors, weights, {.patterns = {}, .origin = {}, .tied = recipe.model.tied_weights()});
  progress.finish();
  return after;
}

}  // namespace trainer
