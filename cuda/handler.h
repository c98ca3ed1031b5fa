// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <utility>

#include "core/base/text_cache.h"
#include "core/engine/arena.h"
#include "core/engine/device.h"
#include "core/engine/tuning.h"
#include "cuda/check.h"

namespace trainer::cuda {

class GpuCollectives;
namespace cudnn {
class Library;
}

/// Of workspaces: cuBLASLt's algorithms for Hopper accept only these addresses, and cuDNN's engines load from
/// them in vectors.
constexpr int64_t kWorkspaceAlignment = 256;

using Counters = Owned<unsigned*, cudaFree>;
Counters make_counters(cudaStream_t stream);

/// The GPU as handlers see it. Everything runs on the one stream. A described GPU has neither stream nor
/// cuBLASLt: handlers then choose, but nothing is compiled.
struct Gpu {
  std::string name;            ///< "NVIDIA H200"
  int compute_capability = 0;  ///< 90 for 9.0
  int64_t ranks = 1;           ///< of the run
  Stream stream;
  BlasHandle blas;
  Counters counters;  ///< of cuda/last_block.h, zero between kernels
  std::shared_ptr<cudnn::Library> cudnn;
  std::string machine;                          ///< GPU and libraries, on which the libraries' answers depend
  std::shared_ptr<TextCache> cache;             ///< of all runs of the user; may be null
  Tuning* tuning = nullptr;                     ///< the choices that were timed; may be null
  std::shared_ptr<GpuCollectives> collectives;  ///< null if the process is alone
  bool tf32 = false;                            ///< products of f32 may round their factors
  bool deterministic = false;                   ///< bitwise identical every time, at any price

  /// Sentences for the plan's readers, from the handlers' choices.
  std::shared_ptr<std::set<std::string>> remarks = std::make_shared<std::set<std::string>>();

  /// Bytes in buffers, which may outlive everything else here.
  std::shared_ptr<int64_t> held = std::make_shared<int64_t>(0);

  int64_t free_at_start = 0;  ///< bytes, when the libraries had started and no kernel had been launched

  bool described() const { return stream == nullptr; }
  /// Whether all choices are timed: runtime.autotune.
  bool times_all() const { return tuning != nullptr && tuning->times_all; }
  /// Whether at least those are that the libraries' heuristics are known to misjudge.
  bool times_some() const { return times_all() || (tuning != nullptr && !deterministic); }

  /// This rank's position among those that share an operation; 0 if none do.
  int64_t position_along(const std::optional<Along>& along) const;
};

/// How the GPU runs one kind of operation. Kernels may keep `gpu`, which outlives them.
struct Handler {
  std::function<Choice(const Gpu&, const OpContext&, const OpenLayouts&)> select;
  std::function<std::unique_ptr<Kernel>(const Gpu&, const OpContext&, const Choice&, const Slots&)> compile;
  /// The reason against this use of the operation; absent: there is none.
  std::function<std::optional<std::string>(const Gpu&, const OpContext&)> why_not;
  /// See Planner; absent: it is not known.
  std::function<std::optional<int64_t>(const Gpu&, const OpContext&)> untimed_workspace = {};
};
using Handlers = std::unordered_map<std::type_index, Handler>;

/// Runs our own kernels: no library of NVIDIA's is needed beside the runtime.
Handlers own_handlers();

/// The reason why the GPU, as it was opened, does not compute in it, with an alternative.
std::optional<std::string> why_not(const Gpu& gpu, Precision precision);
/// A reason if the first input is of whole numbers.
std::optional<std::string> floats_only(const Gpu& gpu, const OpContext& context);
/// How to convert one of the GPU's layouts to another.
Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to);

/// Of a tensor as it is stored in memory, not blocked; 0 for one that is absent.
inline int64_t bytes_of(const TensorSpec& spec) {
  return spec.shape.empty() ? 0 : numel(spec.shape) * bytes_per_element(spec.dtype);
}
/// Every tensor row-major.
Choice row_major(const OpContext& context, std::string implementation);
/// All tensors of the first input's shape in its layout (row-major if that is still open or has gaps), all
/// else row-major.
Choice same_layout(const OpContext& context, const OpenLayouts& inputs, std::string implementation);
/// All tensors of four dimensions with their channels last, all else row-major.
Choice all_channels_last(const OpContext& context, std::string implementation);
/// Elements from one row (of the last dimension) to the next in rows_layout(spec).
int64_t row_step(const TensorSpec& spec);
/// Of the results of a linear layer, and of their gradients. Rows of an odd width, such as the 50,257 logits
/// of GPT-2, would begin at any address, and products of them be three times slower: wide ones begin at
/// multiples of 128 bytes, with a gap between them. All others are row-major.
Layout rows_layout(const TensorSpec& spec);
/// The layout of a mask: its bytes in a row.
Layout bytes_in_a_row(int64_t bytes);

template <class T>
T* at(void* const* slot) {
  return static_cast<T*>(*slot);
}
/// nullptr for an absent tensor.
template <class T>
T* optional_at(void* const* slot) {
  return slot == nullptr ? nullptr : static_cast<T*>(*slot);
}

/// A kernel that calls `launch()`, which enqueues work on the stream and holds the slots it needs.
template <class Launch>
std::unique_ptr<Kernel> kernel(const OpContext& context, Launch launch) {
  struct Started final : Kernel {
    Started(Launch function, std::string_view operation) : launch(std::move(function)), name(operation) {}
    void run() override { check(launch(), name); }
    Launch launch;
    std::string name;
  };
  return std::make_unique<Started>(std::move(launch), context.op.name());
}

}  // namespace trainer::cuda
