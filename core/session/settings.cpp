// SPDX-License-Identifier: Apache-2.0
#include "core/session/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/version.h"
#include "core/config/environment.h"
#include "core/engine/group_operations.h"
#include "core/host/process.h"

namespace trainer {
namespace {

/// The prefix of options' names. No key of a recipe starts with it.
constexpr const char* kOption = "--";

Value::Entry entry(const std::string& name, const std::string& text) {
  Value value;
  value.kind = Value::Kind::scalar;
  value.text = value.raw = text;
  value.quoted = text.empty();
  return {name, {kCommandLine}, value};
}

std::string place_of(const RunSpec& spec, const std::string& key) {
  return key.starts_with(kOption) ? kCommandLine : to_string(spec.recipe().origin_of(key).where);
}

/// A value's own text, or words for one that is not given or may be a secret.
std::string shown(const std::string& value) {
  if (is_hidden(value)) return "(an environment variable's value)";
  return value.empty() ? "(none)" : value;
}

std::string more_text(const std::vector<Difference>& all) {
  if (all.size() == 1) return "";
  std::vector<std::string> keys;
  for (size_t i = 1; i < all.size() && i <= 3; ++i) keys.push_back(all[i].path);
  const size_t left = all.size() - 1 - keys.size();
  return fmt::format("; {} differ{} too{}", fmt::join(keys, ", "), keys.size() == 1 ? "s" : "",
                     left > 0 ? fmt::format(", as do {} more keys", left) : "");
}

RunIdentity parsed(const std::string& text) {
  std::optional<RunIdentity> identity = parse_identity(text);
  if (!identity) throw std::logic_error("a recipe's own text cannot be read");
  return *std::move(identity);
}

}  // namespace

RunIdentity shared_settings(const RunSpec& spec, const SessionRequest& request) {
  Value all = spec.recipe().settings();
  all.entries.push_back(entry("--profile", std::to_string(request.profiled_steps)));
  all.entries.push_back(entry("--disable-pass", fmt::format("{}", fmt::join(request.disabled_passes, ","))));
  all.entries.push_back(entry("--version", kVersion));
  return identity_of(all);
}

std::vector<Difference> setting_differences(const RunIdentity& first, const RunIdentity& own) {
  // A key that is not listed must be equal on all ranks. A missing one here costs an error message; one too
  // many costs a run.
  return forbidden_differences(first, own, {"device.index", "device.memory", "device.threads"});
}

void require_same_settings(const RunSpec& spec, const SessionRequest& request, ProcessGroup& group) {
  if (group.size() == 1) return;
  const std::string own = shared_settings(spec, request).mathematics;
  const std::string first = broadcast_from_rank_0(group, [&] { return host_name() + "\n" + own; });
  run_on_all(group, [&] {
    const size_t end = first.find('\n');
    if (first.substr(end + 1) == own) return;
    std::vector<Difference> all = setting_differences(parsed(first.substr(end + 1)), parsed(own));
    if (all.empty()) return;
    // A key that both have is more telling than those of a component that only one has.
    std::stable_partition(all.begin(), all.end(),
                          [](const Difference& each) { return !each.before.empty() && !each.after.empty(); });
    const Difference& one = all.front();
    throw Error(
        ExitCode::recipe,
        fmt::format("rank {} on {} has {}={} ({}), but rank 0 on {} has {}{}; start all ranks with the same "
                    "program, recipe and arguments",
                    group.rank(), host_name(), one.path, shown(one.after), place_of(spec, one.path),
                    first.substr(0, end), shown(one.before), more_text(all)));
  });
}

}  // namespace trainer
