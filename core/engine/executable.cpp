// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPhases = 3;

}  // namespace

void PhaseSeconds::add(const PhaseSeconds& other) {
  for (size_t i = 0; i < seconds.size(); ++i) seconds[i] += other.seconds[i];
}

Executable::Executable(Plan plan, Backend& backend, bool replay)
    : plan_(std::move(plan)),
      backend_(backend),
      persistent_(backend.allocate(plan_.persistent_bytes)),
      scratch_(backend.allocate(plan_.scratch_bytes)),
      replay_(replay && backend.is_async()) {
  size_t nodes = 0;
  for (const PlannedEntry& entry : plan_.entries) nodes += entry.nodes.size();
  slots_.assign(plan_.tensors.size() + nodes, nullptr);
  for (size_t i = 0; i < plan_.tensors.size(); ++i) {
    const Placement& at = plan_.placements[i];
    if (at.region == Region::persistent) slots_[i] = persistent_.data() + at.offset;
    if (at.region == Region::scratch) slots_[i] = scratch_.data() + at.offset;
    if (at.viewed_input != kNone) input_views_.emplace_back(static_cast<TensorId>(i), at.viewed_input);
    if (plan_.tensors[i].role == Role::input) inputs_.push_back(static_cast<TensorId>(i));
  }
  size_t workspace_slot = plan_.tensors.size();
  for (const PlannedEntry& entry : plan_.entries) {
    entries_.push_back(prepare(entry, workspace_slot));
    workspace_slot += entry.nodes.size();
  }
}

/// Compiles the nodes of an entry, whose workspaces have the slots from `workspace_slot` on.
Executable::Prepared Executable::prepare(const PlannedEntry& entry, size_t workspace_slot) {
  Prepared prepared;
  prepared.stopwatch = backend_.make_stopwatch(kPhases + 1);
  prepared.phase_ends.assign(kPhases, 0);
  for (const PlannedNode& planned : entry.nodes) {
    slots_[workspace_slot] = scratch_.data() + planned.workspace_offset;
    if (planned.runs) prepared.steps.push_back({compile(planned, workspace_slot), &planned});
    ++workspace_slot;
    for (auto phase = static_cast<size_t>(planned.node.phase); phase < kPhases; ++phase) {
      prepared.phase_ends[phase] = prepared.steps.size();
    }
  }
  return prepared;
}

std::unique_ptr<Kernel> Executable::compile(const PlannedNode& planned, size_t workspace_slot) const {
  const Node& node = planned.node;
  const OpContext context{.op = *node.op,
                          .inputs = specs_of(plan_.tensors, node.inputs),
                          .outputs = specs_of(plan_.tensors, node.outputs),
                          .label = label_of(node)};
  auto address = [&](TensorId id) -> void* const* {
    return id == kNone ? nullptr : &slots_[static_cast<size_t>(id)];
  };
  Slots slots;
  for (TensorId id : node.inputs) slots.inputs.push_back(address(id));
  for (TensorId id : node.outputs) slots.outputs.push_back(address(id));
  slots.workspace = &slots_[workspace_slot];
  return backend_.compile(context, planned.choice, slots);
}

void Executable::run_observed(const Step& step) {
  auto seconds = [] { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); };
  backend_.synchronize(backend_.record_event());
  const double begin = seconds();
  step.kernel->run();
  backend_.synchronize(backend_.record_event());
  observer_(*step.node, begin, seconds());
}

size_t Executable::entry(std::string_view name) const {
  for (size_t i = 0; i < plan_.entries.size(); ++i) {
    if (plan_.entries[i].name == name) return i;
  }
  throw std::logic_error(fmt::format("no entry point is named {}", name));
}

void Executable::bind(TensorId input, void* data) {
  slots_[static_cast<size_t>(input)] = data;
  for (const auto& [view, of] : input_views_) {
    if (of == input) slots_[static_cast<size_t>(view)] = data;
  }
}

void Executable::run(size_t entry, bool timed) {
  Prepared& prepared = entries_[entry];
  // The first run is a walk: what libraries only do once they do then.
  const bool replays = replay_ && prepared.has_run && !observer_;
  Kernel* kernel = replays ? recorded(prepared, timed) : nullptr;
  if (kernel != nullptr) {
    kernel->run();
  } else {
    walk(prepared, timed);
  }
  prepared.has_run = true;
}

/// The recording for the inputs as they are bound now, made on first use; null where the device keeps none.
Kernel* Executable::recorded(Prepared& entry, bool timed) {
  auto fits = [&](const Recording& recording) {
    if (recording.timed != timed) return false;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (recording.inputs[i] != slots_[static_cast<size_t>(inputs_[i])]) return false;
    }
    return true;
  };
  const auto known = std::find_if(entry.recordings.begin(), entry.recordings.end(), fits);
  if (known != entry.recordings.end()) return known->kernel.get();
  std::unique_ptr<Kernel> kernel = backend_.capture_graph([&] { walk(entry, timed); });
  if (kernel == nullptr) {
    replay_ = false;
    return nullptr;
  }
  Recording recording{.inputs = {}, .timed = timed, .kernel = std::move(kernel)};
  for (TensorId input : inputs_) recording.inputs.push_back(slots_[static_cast<size_t>(input)]);
  entry.recordings.push_back(std::move(recording));
  return entry.recordings.back().kernel.get();
}

void Executable::walk(const Prepared& entry, bool timed) {
  size_t next = 0;
  if (timed) entry.stopwatch->mark(0);
  for (size_t phase = 0; phase < kPhases; ++phase) {
    for (; next < entry.phase_ends[phase]; ++next) {
      const Step& step = entry.steps[next];
      if (observer_) {
        run_observed(step);
      } else {
        step.kernel->run();
      }
    }
    if (timed) entry.stopwatch->mark(phase + 1);
  }
}

PhaseSeconds Executable::phases(size_t entry) const {
  PhaseSeconds spent;
  for (size_t phase = 0; phase < kPhases; ++phase)
    spent.seconds[phase] = entries_[entry].stopwatch->seconds(phase);
  return spent;
}

std::vector<float> Executable::read(TensorId id) const {
  const auto index = static_cast<size_t>(id);
  const Shape& shape = plan_.tensors[index].spec.shape;
  const Layout& layout = plan_.placements[index].layout;
  std::vector<float> stored(static_cast<size_t>(stored_elements(layout, shape)));
  backend_.download(stored.data(), slots_[index], static_cast<int64_t>(stored.size()),
                    plan_.tensors[index].spec.dtype);
  if (layout.row_major()) return stored;
  std::vector<float> values;
  values.reserve(static_cast<size_t>(numel(shape)));
  for_each_place(layout, shape, [&](int64_t place) { values.push_back(stored[static_cast<size_t>(place)]); });
  return values;
}

void Executable::write(TensorId id, const std::vector<float>& values) {
  const auto index = static_cast<size_t>(id);
  const Shape& shape = plan_.tensors[index].spec.shape;
  const Layout& layout = plan_.placements[index].layout;
  if (static_cast<int64_t>(values.size()) != numel(shape))
    throw std::logic_error("write: wrong number of values");
  std::vector<float> stored(static_cast<size_t>(stored_elements(layout, shape)), 0.0f);
  size_t next = 0;
  for_each_place(layout, shape, [&](int64_t place) { stored[static_cast<size_t>(place)] = values[next++]; });
  backend_.upload(slots_[index], stored.data(), static_cast<int64_t>(stored.size()),
                  plan_.tensors[index].spec.dtype);
}

}  // namespace trainer
