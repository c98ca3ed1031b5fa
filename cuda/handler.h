// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <utility>

#include "core/engine/backend.h"
#include "core/engine/tuning.h"
#include "cuda/check.h"

namespace trainer::cuda {

namespace cudnn {
class Library;
}

/// The GPU as kernels see it: everything runs in the order in which it was put on the one stream. A device
/// that is only described has neither stream nor cuBLASLt: handlers then choose, but nothing is compiled.
struct Device {
  std::string name;            ///< "NVIDIA H200"
  int compute_capability = 0;  ///< 90 for 9.0
  Stream stream;
  BlasHandle blas;
  std::shared_ptr<cudnn::Library> cudnn;
  Tuning* tuning = nullptr;    ///< with runtime.autotune: what was found the fastest
  bool tf32 = false;           ///< products of f32 may round their factors
  bool deterministic = false;  ///< the same bits every time, at any price

  bool described() const { return stream == nullptr; }
};

/// How the GPU runs one kind of operation. All three may keep `device`, which outlives them.
struct Handler {
  std::function<Choice(const Device& device, const OpContext&, const OpenLayouts& inputs)> select;
  std::function<std::unique_ptr<Kernel>(const Device& device, const OpContext&, const Choice&, const Slots&)>
      compile;
  /// The reason against this use of the operation; absent: there is none.
  std::function<std::optional<std::string>(const OpContext&)> why_not;
};
using Handlers = std::unordered_map<std::type_index, Handler>;

// Each file of operations adds its own.
void add_batch_norm(Handlers& handlers);
void add_channels(Handlers& handlers);
void add_dropout(Handlers& handlers);
void add_elementwise(Handlers& handlers);
void add_loss(Handlers& handlers);
void add_guards(Handlers& handlers);
void add_loss_scale(Handlers& handlers);
void add_movement(Handlers& handlers);
void add_optimizer(Handlers& handlers);
void add_pixels(Handlers& handlers);
void add_pooling(Handlers& handlers);
void add_resample(Handlers& handlers);
void add_linear(Handlers& handlers, const Device& device);
void add_convolution(Handlers& handlers, const Device& device);
/// All that need no library of NVIDIA's beside the runtime.
void add_own_kernels(Handlers& handlers);

/// The handler of an operation, or nullptr.
const Handler* find(const Handlers& handlers, const Operation& op);
/// The reason why none of the handlers can run this.
std::optional<std::string> why_not(const Handlers& handlers, const OpContext& context);
/// The reason why the device does not compute in it as it was opened, and what to write instead.
std::optional<std::string> why_not(const Device& device, Precision precision);
/// A reason where the first input is of whole numbers.
std::optional<std::string> floats_only(const OpContext& context);
/// How to turn one of the GPU's layouts into another.
Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to);

/// (N, C, H, W) with the channels densest. Where that is row-major order anyway (one channel, or one pixel)
/// it is the row-major layout, so that there is one name for it.
Layout channels_last(const Shape& shape);

/// Every tensor row-major.
Choice row_major(const OpContext& context, std::string implementation);
/// All tensors of the first input's shape in its layout (row-major where that is still open), all else
/// row-major.
Choice same_layout(const OpContext& context, const OpenLayouts& inputs, std::string implementation);
/// All tensors of four dimensions with their channels last, all else row-major.
Choice all_channels_last(const OpContext& context, std::string implementation);

template <class T>
T* at(void* const* slot) {
  return static_cast<T*>(*slot);
}
/// nullptr for an absent tensor.
template <class T>
T* optional_at(void* const* slot) {
  return slot == nullptr ? nullptr : static_cast<T*>(*slot);
}

/// A kernel that calls `launch()`, which puts work on the stream and holds the slots it needs.
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
