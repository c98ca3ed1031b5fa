// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "cuda/attention.h"
#include "cuda/bound_plan.h"
#include "cuda/known_fastest.h"
#include "cuda/table.h"
#include "cuda/timing.h"

// Attention by cuDNN's kernels on tensor cores if they take it, and by our own otherwise.

namespace trainer::cuda {
namespace {

namespace in = attention_input;
using cudnn::AttentionGraph;
using cudnn::EngineChoice;
using Kind = AttentionGraph::Kind;
using Uid = AttentionGraph::Uid;

constexpr const char* kCudnn = "cudnn";
/// Number of engines that runtime.autotune times.
constexpr size_t kTimed = 4;
/// An engine that needs more, as for all scores of long sequences, is skipped: our kernels need next to
/// nothing.
constexpr int64_t kMostWorkspace = int64_t{1} << 30;
/// All engines take heads of up to this many elements, in vectors of 16 bytes.
constexpr int64_t kLargestHead = 128, kHeadMultiple = 8;
/// From here on cuDNN can compute a bitwise reproducible gradient with settings of an engine that its
/// heuristics do not list.
constexpr int kUndocumentedFrom = 100;

/// Cases that cuDNN cannot handle, or not as we do: dropout draws other numbers, documents need a mask in
/// memory.
bool is_plain(const OpContext& context, const AttentionSizes& e) {
  const AttentionSettings& settings = attention_settings(context.op);
  return is_low(context.inputs[in::kQ].dtype) && !settings.dropout && settings.window == 0 &&
         !is_given(context.inputs[in::kFirstPosition]) && !is_given(context.inputs[in::kStart]) &&
         e.size <= kLargestHead && e.size % kHeadMultiple == 0 && e.queries > 1;
}

/// The graph for cuDNN, if it is used at all.
std::optional<AttentionGraph> graph_of(const Gpu& gpu, const OpContext& context) {
  const AttentionSettings& settings = attention_settings(context.op);
  const AttentionSizes e(settings, context.inputs[in::kQ].shape, context.inputs[in::kK].shape);
  if (!is_plain(context, e)) return std::nullopt;
  const bool forward = dynamic_cast<const Attention*>(&context.op) != nullptr;
  const bool repeats = !forward && gpu.deterministic;
  if (repeats && gpu.compute_capability >= kUndocumentedFrom) return std::nullopt;
  if (!forward && !std::ranges::all_of(context.outputs, is_given)) return std::nullopt;
  return AttentionGraph{.kind = forward ? Kind::forward : Kind::backward,
                        .dtype = context.inputs[in::kQ].dtype,
                        .samples = e.samples,
                        .positions = e.queries,
                        .heads = e.heads,
                        .kv_heads = e.kv_heads,
                        .size = e.size,
                        .q_row = e.q_row(),
                        .kv_row = e.kv_row(),
                        .causal = settings.causal,
                        .log_sum = forward && context.has_output(Attention::kLogSum),
                        .deterministic = repeats};
}

/// The workspace begins with the intermediate memory that cuDNN leaves to its caller.
struct InBetween {
  int64_t query_sums = 0, all = 0;  ///< bytes before the sums, and of everything

  explicit InBetween(const AttentionGraph& graph) {
    if (graph.kind == Kind::forward) return;
    query_sums = align_up(graph.products_bytes(), kWorkspaceAlignment);
    all = query_sums + align_up(graph.query_sums_bytes(), kWorkspaceAlignment);
  }
};

Choice choice_of(const OpContext& context, const AttentionGraph& graph, const EngineChoice& engine) {
  Choice choice = row_major(context, kCudnn);
  choice.algorithm = engine.text;
  choice.workspace_bytes = InBetween(graph).all + engine.workspace_bytes;
  choice.tensor_cores = true;
  if (graph.sums_dq()) {  // which are cleared, added to and read
    choice.kernels = 2;
    choice.again_bytes = 3 * graph.query_sums_bytes();
  }
  return choice;
}

std::vector<Choice> candidates(const Gpu& gpu, const OpContext& context, const AttentionGraph& graph,
                               size_t most) {
  std::vector<Choice> found;
  for (const EngineChoice& engine : gpu.cudnn->usable(graph, most)) {
    if (engine.workspace_bytes <= kMostWorkspace) found.push_back(choice_of(context, graph, engine));
  }
  return found;
}

/// The numbers that a plan reads from the host on every run.
struct Numbers {
  explicit Numbers(double scale)
      : values{static_cast<float>(scale), -std::numeric_limits<float>::infinity(), 1} {}
  std::array<float, 3> values;
  std::array<void*, 3> at{&values[0], &values[1], &values[2]};
};

std::vector<BoundTensor> tensors_of(const OpContext& context, const AttentionGraph& graph, const Slots& slots,
                                    const Numbers& numbers) {
  const AttentionSizes e(attention_settings(context.op), context.inputs[in::kQ].shape,
                         context.inputs[in::kK].shape);
  const int64_t bytes = bytes_per_element(graph.dtype);
  const auto keys = [&](Uid key, Uid value, const std::vector<void* const*>& of) -> std::vector<BoundTensor> {
    return {{key, of[e.packed ? 0 : 1], e.k_begin() * bytes},
            {value, of[e.packed ? 0 : 2], e.v_begin() * bytes}};
  };
  std::vector<BoundTensor> tensors = keys(Uid::kKey, Uid::kValue, slots.inputs);
  tensors.insert(tensors.end(), {{Uid::kQuery, slots.inputs[in::kQ]}, {Uid::kScale, &numbers.at[0]}});
  if (graph.causal) tensors.push_back({Uid::kMinusInfinity, &numbers.at[1]});
  if (graph.kind == Kind::forward) {
    tensors.push_back({Uid::kResult, slots.outputs[Attention::kY]});
    if (graph.log_sum) tensors.push_back({Uid::kLogSum, slots.outputs[Attention::kLogSum]});
    return tensors;
  }
  tensors.insert(tensors.end(), {{Uid::kResult, slots.inputs[in::kY]},
                                 {Uid::kResultGradient, slots.inputs[in::kDy]},
                                 {Uid::kLogSum, slots.inputs[in::kLogSum]},
                                 {Uid::kQueryGradient, slots.outputs[AttentionBackward::kDq]},
                                 {Uid::kOne, &numbers.at[2]},
                                 {Uid::kProducts, slots.workspace}});
  if (graph.sums_dq()) tensors.push_back({Uid::kQuerySums, slots.workspace, InBetween(graph).query_sums});
  std::ranges::copy(keys(Uid::kKeyGradient, Uid::kValueGradient, slots.outputs), std::back_inserter(tensors));
  return tensors;
}

std::unique_ptr<Kernel> compile_plan(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                     const Slots& slots) {
  const AttentionGraph graph = *graph_of(gpu, context);
  auto numbers = std::make_shared<const Numbers>(attention_settings(context.op).factor(graph.size));
  BoundPlan plan(gpu.cudnn->plan(graph, choice.algorithm), tensors_of(context, graph, slots, *numbers),
                 slots.workspace, InBetween(graph).all);
  // Kernels add to these sums. NVIDIA's front end clears them only up to release 9.5, but that later ones do
  // so themselves is not documented.
  const auto sums_bytes = static_cast<size_t>(graph.query_sums_bytes());
  return kernel(context, [plan = std::move(plan), numbers = std::move(numbers), sums_bytes,
                          skipped = InBetween(graph).query_sums, workspace = slots.workspace,
                          stream = gpu.stream.get()]() mutable {
    if (sums_bytes > 0) {
      const cudaError_t status = cudaMemsetAsync(at<char>(workspace) + skipped, 0, sums_bytes, stream);
      if (status != cudaSuccess) return status;
    }
    plan.run();
    return cudaSuccess;
  });
}

/// Memory of arbitrary content in place of an operation's tensors.
class ScratchSlots {
 public:
  ScratchSlots(const OpContext& context, int64_t workspace_bytes) {
    for (const TensorSpec& spec : context.inputs) slots.inputs.push_back(slot(spec));
    for (const TensorSpec& spec : context.outputs) slots.outputs.push_back(slot(spec));
    slots.workspace = slot(workspace_bytes);
  }

  Slots slots;

 private:
  void* const* slot(const TensorSpec& spec) {
    return is_given(spec) ? slot(numel(spec.shape) * bytes_per_element(spec.dtype)) : nullptr;
  }
  void* const* slot(int64_t bytes) {
    memory_.push_back(scratch_memory(bytes));
    return &places_.emplace_back(memory_.back().get());
  }

  std::vector<DeviceMemory> memory_;
  std::deque<void*> places_;  // which keep their addresses
};

/// Attention by cuDNN, or as in the previous handler.
class FusedAttention {
 public:
  explicit FusedAttention(Handler own) : own_(std::move(own)) {}

  Choice select(const Gpu& gpu, const OpContext& context, const OpenLayouts& layouts) const {
    Choice own = own_.select(gpu, context, layouts);
    const std::optional<AttentionGraph> graph = graph_of(gpu, context);
    if (!graph) return own;
    if (const auto note = cudnn::note_of_old_release(cudnnGetVersion())) {
      gpu.remarks->insert(*note);
      return own;
    }
    if (gpu.times_all() && gpu.cudnn->on_device()) return fastest(gpu, context, *graph, std::move(own));
    const std::vector<Choice> first = candidates(gpu, context, *graph, 1);
    return first.empty() ? own : first[0];
  }

  std::unique_ptr<Kernel> compile(const Gpu& gpu, const OpContext& context, const Choice& choice,
                                  const Slots& slots) const {
    if (choice.implementation != kCudnn) return own_.compile(gpu, context, choice, slots);
    gpu.cudnn->share(*graph_of(gpu, context), choice.algorithm);
    return compile_plan(gpu, context, choice, slots);
  }

 private:
  /// Its text in a tuning: "cudnn e2:24=7", or "tiles".
  static std::string name_of(const Choice& choice) {
    return choice.implementation + (choice.algorithm.empty() ? "" : " " + choice.algorithm);
  }

  Choice fastest(const Gpu& gpu, const OpContext& context, const AttentionGraph& graph, Choice own) const {
    const std::string key = gpu.cudnn->title() + ": " + graph.text();
    if (const auto known = known_fastest(gpu, key)) {
      if (std::optional<Choice> found = remembered(gpu, context, graph, own, *known)) {
        keep_fastest(gpu, key, *known);
        return *std::move(found);
      }
    }
    std::vector<Choice> all = candidates(gpu, context, graph, kTimed);
    all.push_back(std::move(own));
    const size_t best = measure(gpu, context, all);
    for (size_t i = 0; i < all.size(); ++i) {
      if (i != best && all[i].implementation == kCudnn) gpu.cudnn->forget(graph, all[i].algorithm);
    }
    share_fastest(gpu, key, name_of(all[best]));
    return all[best];
  }

  /// The choice that a tuning names, if the library still has it.
  static std::optional<Choice> remembered(const Gpu& gpu, const OpContext& context,
                                          const AttentionGraph& graph, const Choice& own,
                                          const std::string& known) {
    if (known == name_of(own)) return own;
    for (EngineChoice engine : gpu.cudnn->ask(graph).choices) {
      if (name_of(choice_of(context, graph, engine)) != known) continue;
      try {
        engine.workspace_bytes = gpu.cudnn->plan(graph, engine.text)->workspace_bytes();
        return choice_of(context, graph, engine);
      } catch (const Error&) {  // it is timed again
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  size_t measure(const Gpu& gpu, const OpContext& context, const std::vector<Choice>& all) const {
    int64_t most = 0;
    for (const Choice& one : all) most = std::max(most, one.workspace_bytes);
    const ScratchSlots scratch(context, most);
    return fastest_of(all.size(), [&](size_t i) {
      const auto kernel = all[i].implementation == kCudnn ? compile_plan(gpu, context, all[i], scratch.slots)
                                                          : own_.compile(gpu, context, all[i], scratch.slots);
      return milliseconds(gpu.stream.get(), [&] { kernel->run(); });
    });
  }

  Handler own_;
};

void fuse(Handler& handler) {
  const auto fused = std::make_shared<const FusedAttention>(handler);
  handler.select = [fused](const Gpu& gpu, const OpContext& context, const OpenLayouts& layouts) {
    return fused->select(gpu, context, layouts);
  };
  handler.compile = [fused](const Gpu& gpu, const OpContext& context, const Choice& choice,
                            const Slots& slots) { return fused->compile(gpu, context, choice, slots); };
}

}  // namespace

void add_fused_attention(Handlers& handlers) {
  fuse(handlers[typeid(Attention)]);
  fuse(handlers[typeid(AttentionBackward)]);
}

}  // namespace trainer::cuda
