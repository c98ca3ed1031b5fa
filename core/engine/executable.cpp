// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "core/base/error.h"
#include "core/graph/names.h"

namespace trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPhases = 3;

}  // namespace

void PhaseSeconds::add(const PhaseSeconds& other) {
  for (size_t i = 0; i < seconds.size(); ++i) seconds[i] += other.seconds[i];
}

Executable::Executable(Plan plan, Device& device, bool replay)
    : plan_(std::move(plan)),
      device_(device),
      persistent_(device.allocate(plan_.persistent_bytes)),
      scratch_(device.allocate(plan_.scratch_bytes)),
      replay_(replay && plan_.is_async) {
  size_t nodes = 0;
  for (const PlannedEntry& entry : plan_.entries) nodes += entry.nodes.size();
  slots_.assign(plan_.tensors.size() + nodes, nullptr);
  for (size_t i = 0; i < plan_.tensors.size(); ++i) {
    const Placement& at = plan_.placements[i];
    if (!plan_.tensors[i].name.empty()) by_name_.emplace(plan_.tensors[i].name, static_cast<TensorId>(i));
    if (at.region == Region::persistent) slots_[i] = persistent_.data() + at.offset;
    if (at.region == Region::scratch) slots_[i] = scratch_.data() + at.offset;
    if (at.viewed_input != kNone) input_views_.emplace_back(static_cast<TensorId>(i), at.viewed_input);
    if (plan_.tensors[i].role == Role::input) inputs_.push_back(static_cast<TensorId>(i));
  }
  size_t workspace_slot = plan_.tensors.size();
  for (const PlannedEntry& entry : plan_.entries) {
    entries_.push_back(compile(entry, workspace_slot));
    workspace_slot += entry.nodes.size();
  }
}

TensorId Executable::tensor(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? kNone : found->second;
}

/// Compiles the nodes of an entry; the slots of their workspaces begin at `workspace_slot`.
Executable::CompiledEntry Executable::compile(const PlannedEntry& entry, size_t workspace_slot) {
  CompiledEntry compiled;
  compiled.phase_ends.assign(kPhases, 0);
  for (const PlannedNode& planned : entry.nodes) {
    slots_[workspace_slot] = scratch_.data() + planned.workspace_offset;
    if (planned.runs) compiled.steps.push_back({compile(planned, workspace_slot), &planned});
    ++workspace_slot;
    for (auto phase = static_cast<size_t>(planned.node.phase); phase < kPhases; ++phase) {
      compiled.phase_ends[phase] = compiled.steps.size();
    }
  }
  return compiled;
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
  return device_.compile(context, planned.choice, slots);
}

void Executable::run_observed(const Step& step) {
  auto seconds = [] { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); };
  device_.synchronize(device_.record_event());
  const double begin = seconds();
  step.kernel->run();
  device_.synchronize(device_.record_event());
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

void Executable::prepare(const std::function<void(TensorId)>& give) {
  if (!plan_.has_entry(entry_name::kPrepare)) return;
  const size_t position = entry(entry_name::kPrepare);
  auto step = entries_[position].steps.begin();
  for (const PlannedNode& planned : plan_.entries[position].nodes) {
    for (const TensorId id : planned.given) give(id);
    if (planned.runs) (step++)->kernel->run();
  }
}

void Executable::run(size_t entry, std::optional<size_t> stopwatch) {
  CompiledEntry& compiled = entries_[entry];
  while (stopwatch && compiled.stopwatches.size() <= *stopwatch)
    compiled.stopwatches.push_back(device_.make_stopwatch(kPhases + 1));
  Stopwatch* timer = stopwatch ? compiled.stopwatches[*stopwatch].get() : nullptr;
  // The first run executes the nodes: libraries do their one-time work in it.
  const bool replays = replay_ && compiled.has_run && !observer_;
  Kernel* kernel = replays ? captured(compiled, timer) : nullptr;
  if (kernel != nullptr) {
    kernel->run();
  } else {
    execute(compiled, timer);
  }
  compiled.has_run = true;
}

/// The graph for the inputs as they are bound now, captured on first use; null if the device captures
/// none.
Kernel* Executable::captured(CompiledEntry& entry, Stopwatch* stopwatch) {
  auto fits = [&](const CapturedGraph& graph) {
    if (graph.stopwatch != stopwatch) return false;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (graph.inputs[i] != slots_[static_cast<size_t>(inputs_[i])]) return false;
    }
    return true;
  };
  const auto known = std::find_if(entry.graphs.begin(), entry.graphs.end(), fits);
  if (known != entry.graphs.end()) return known->kernel.get();
  std::unique_ptr<Kernel> kernel = capture(entry, stopwatch);
  if (kernel == nullptr) {
    replay_ = false;
    return nullptr;
  }
  CapturedGraph graph{.inputs = {}, .stopwatch = stopwatch, .kernel = std::move(kernel)};
  for (TensorId input : inputs_) graph.inputs.push_back(slots_[static_cast<size_t>(input)]);
  entry.graphs.push_back(std::move(graph));
  return entry.graphs.back().kernel.get();
}

/// A device that has failed permanently fails the execution as well, so any of its errors may become a
/// warning here.
std::unique_ptr<Kernel> Executable::capture(const CompiledEntry& entry, Stopwatch* stopwatch) {
  try {
    return device_.capture_graph([&] { execute(entry, stopwatch); },
                                 [&](const std::string& text) {
                                   if (warn_) warn_(text);
                                 });
  } catch (const Error& problem) {
    if (!warn_) throw;
    warn_(fmt::format(
        "no CUDA graph could be made of a step: {}; its kernels are launched one by one, which is slower; "
        "runtime.cuda_graph=false leaves the attempt out",
        problem.what()));
    return nullptr;
  }
}

void Executable::execute(const CompiledEntry& entry, Stopwatch* stopwatch) {
  size_t next = 0;
  if (stopwatch != nullptr) stopwatch->mark(0);
  for (size_t phase = 0; phase < kPhases; ++phase) {
    for (; next < entry.phase_ends[phase]; ++next) {
      const Step& step = entry.steps[next];
      if (observer_) {
        run_observed(step);
      } else {
        step.kernel->run();
      }
    }
    if (stopwatch != nullptr) stopwatch->mark(phase + 1);
  }
}

PhaseSeconds Executable::phases(size_t entry, size_t stopwatch) const {
  const Stopwatch& timer = *entries_[entry].stopwatches.at(stopwatch);
  PhaseSeconds spent;
  for (size_t phase = 0; phase < kPhases; ++phase) spent.seconds[phase] = timer.seconds(phase);
  return spent;
}

void Executable::copy_out(TensorId id, int64_t offset, std::span<std::byte> bytes) const {
  device_.copy_to_host(bytes, static_cast<const std::byte*>(address(id)) + offset);
}

void Executable::copy_in(TensorId id, int64_t offset, std::span<const std::byte> bytes) {
  device_.copy_to_device(static_cast<std::byte*>(address(id)) + offset, bytes);
}

template <class T>
std::vector<T> Executable::read(TensorId id) const {
  const Shape& shape = plan_.tensors[static_cast<size_t>(id)].spec.shape;
  const Layout& layout = plan_.placements[static_cast<size_t>(id)].layout;
  const StoredType type = plan_.stored_type(id);
  const auto count = static_cast<size_t>(stored_elements(layout, shape));
  std::vector<T> stored;
  if (is_stored_as_is<T>(type)) {
    stored.resize(count);
    copy_out(id, 0, std::as_writable_bytes(std::span(stored)));
  } else {
    std::vector<std::byte> bytes(count * static_cast<size_t>(type.bytes));
    copy_out(id, 0, bytes);
    stored = from_stored<T>(bytes, type);
  }
  if (layout.row_major()) return stored;
  std::vector<T> values;
  values.reserve(static_cast<size_t>(numel(shape)));
  for_each_place(layout, shape, [&](int64_t place) { values.push_back(stored[static_cast<size_t>(place)]); });
  return values;
}

template <class T>
void Executable::write(TensorId id, const std::vector<T>& values) {
  const Shape& shape = plan_.tensors[static_cast<size_t>(id)].spec.shape;
  const Layout& layout = plan_.placements[static_cast<size_t>(id)].layout;
  if (static_cast<int64_t>(values.size()) != numel(shape))
    throw std::logic_error("write: wrong number of values");
  const auto put = [this, id](std::span<const T> numbers) {
    const StoredType type = plan_.stored_type(id);
    if (is_stored_as_is<T>(type)) return copy_in(id, 0, std::as_bytes(numbers));
    copy_in(id, 0, to_stored(numbers, type));
  };
  if (layout.row_major()) return put(values);
  std::vector<T> stored(static_cast<size_t>(stored_elements(layout, shape)), T(0));
  size_t next = 0;
  for_each_place(layout, shape, [&](int64_t place) { stored[static_cast<size_t>(place)] = values[next++]; });
  put(stored);
}

void Executable::fill(TensorId id, double value) {
  const Shape& shape = plan_.tensors[static_cast<size_t>(id)].spec.shape;
  const Layout& layout = plan_.placements[static_cast<size_t>(id)].layout;
  // Padding stays zero.
  if (value != 0 && layout.has_padding())
    return write(id, std::vector<double>(static_cast<size_t>(numel(shape)), value));
  // Piece by piece: the moments of a large network need no second copy of themselves.
  constexpr int64_t kPiece = int64_t{1} << 18;
  const StoredType type = plan_.stored_type(id);
  const int64_t count = stored_elements(layout, shape);
  const std::vector<double> values(static_cast<size_t>(std::min(count, kPiece)), value);
  const std::vector<std::byte> piece = to_stored(std::span(values), type);
  for (int64_t at = 0; at < count; at += kPiece) {
    const int64_t length = std::min(kPiece, count - at);
    copy_in(id, at * type.bytes, std::span(piece).first(static_cast<size_t>(length * type.bytes)));
  }
}

template std::vector<float> Executable::read(TensorId) const;
template std::vector<double> Executable::read(TensorId) const;
template std::vector<int32_t> Executable::read(TensorId) const;
template std::vector<uint8_t> Executable::read(TensorId) const;
template void Executable::write(TensorId, const std::vector<float>&);
template void Executable::write(TensorId, const std::vector<double>&);
template void Executable::write(TensorId, const std::vector<int32_t>&);
template void Executable::write(TensorId, const std::vector<uint8_t>&);

}  // namespace trainer
