// SPDX-License-Identifier: Apache-2.0
#include "cpu/own_winograd.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/bfloat16.h"
#include "core/engine/buffer.h"
#include "core/graph/ops/conv2d.h"
#include "cpu/onednn.h"
#include "cpu/winograd/convolution.h"
#include "cpu/winograd/instructions.h"

namespace trainer::cpu {
namespace {

using winograd::Geometry;

enum class Direction { forward, data, weights };

/// A convolution or one of its gradients, in the terms of cpu/winograd. Groups are computed one after the
/// other.
struct Use {
  Direction direction;
  Geometry geometry;  ///< of a group's forward convolution, whatever the direction
  Shape x, w, y;
  winograd::Storage storage = winograd::Storage::f32;
  bool bias = false, residual = false, relu = false;

  const winograd::Kernels& kernels() const { return winograd::best_kernels(storage); }
  /// Groups begin with a block of channels, unless there is only one.
  bool fits_blocks() const {
    const int64_t lanes = kernels().lanes;
    return geometry.groups == 1 || (geometry.inputs % lanes == 0 && geometry.outputs % lanes == 0);
  }
  int64_t bytes_of(int64_t elements) const {
    return elements * (storage == winograd::Storage::f32 ? sizeof(float) : sizeof(BFloat16));
  }
};

/// A group's part of a slot's memory, of `bytes` each; null without a slot.
template <class T>
T* of_group(void* const* slot, int64_t group, int64_t bytes) {
  return slot == nullptr ? nullptr : reinterpret_cast<T*>(at<std::byte>(slot) + group * bytes);
}

constexpr int64_t kFewestChannels = 8, kMostPadding = 2, kTapsOfWeight = winograd::kTaps * winograd::kTaps;

std::optional<Use> use_of(Direction direction, const Conv2dGeometry& g, const Shape& x, const Shape& w,
                          const Shape& y) {
  const Size2d ones{1, 1};
  if (g.kernel != Size2d{winograd::kTaps, winograd::kTaps} || g.stride != ones || g.dilation != ones ||
      std::max(g.padding[0], g.padding[1]) > kMostPadding ||
      std::min(x[1], y[1]) < kFewestChannels * g.groups) {
    return std::nullopt;
  }
  return Use{direction,
             {.images = x[0],
              .inputs = x[1] / g.groups,
              .outputs = y[1] / g.groups,
              .height = x[2],
              .width = x[3],
              .y_height = y[2],
              .y_width = y[3],
              .top = g.padding[0],
              .left = g.padding[1],
              .groups = g.groups},
             x,
             w,
             y};
}

std::optional<Use> use_in_f32(const OpContext& c) {
  if (const auto* op = dynamic_cast<const Conv2d*>(&c.op)) {
    auto use = use_of(Direction::forward, op->geometry, c.inputs[Conv2d::kX].shape,
                      c.inputs[Conv2d::kWeight].shape, c.outputs[Conv2d::kY].shape);
    if (use) {
      use->bias = c.has_input(Conv2d::kBias);
      use->residual = c.has_input(Conv2d::kResidual);
      use->relu = op->relu;
    }
    return use;
  }
  if (const auto* op = dynamic_cast<const Conv2dBackwardData*>(&c.op))
    return use_of(Direction::data, op->geometry, c.outputs[Conv2dBackwardData::kDx].shape,
                  c.inputs[Conv2dBackwardData::kWeight].shape, c.inputs[Conv2dBackwardData::kDy].shape);
  const auto& op = static_cast<const Conv2dBackwardWeights&>(c.op);
  auto use = use_of(Direction::weights, op.geometry, c.inputs[Conv2dBackwardWeights::kX].shape, op.w_shape,
                    c.inputs[Conv2dBackwardWeights::kDy].shape);
  if (use) use->bias = op.has_bias;
  return use;
}

winograd::Storage storage_of(DType dtype) {
  return dtype == DType::bf16 ? winograd::Storage::bf16 : winograd::Storage::f32;
}

std::optional<Use> use_of(const OpContext& c) {
  const DType dtype = c.inputs[0].dtype;
  if (dtype != DType::f32 && dtype != DType::bf16) return std::nullopt;
  auto use = use_in_f32(c);
  if (use) use->storage = storage_of(dtype);
  return use && use->fits_blocks() ? use : std::nullopt;
}

std::unique_ptr<winograd::Forward> forward_of(const Use& use) {
  const bool reversed = use.direction == Direction::data;
  return make_forward(use.kernels(), reversed ? use.geometry.reversed() : use.geometry, reversed,
                      omp_get_max_threads());
}

std::unique_ptr<winograd::BackwardWeights> gradient_of(const Use& use) {
  return make_backward_weights(use.kernels(), use.geometry, omp_get_max_threads());
}

Layout layout_of(const Shape& shape, dnnl::memory::format_tag tag) {
  return to_layout({shape, dnnl::memory::data_type::f32, tag}, shape);
}

/// The layout of weights for convolutions in blocks of channels.
Layout blocked_weights(const Shape& w, const winograd::Kernels& kernels) {
  using Tag = dnnl::memory::format_tag;
  return layout_of(w, kernels.lanes == 16 ? Tag::OIhw16i16o : Tag::OIhw8i8o);
}

/// More tiles hide the work on the weights: it takes less than a twentieth of theirs.
constexpr int64_t kTilesThatHideWeights = 128;

bool keeps_transformed_weights(const OpContext& context, const Use& use) {
  return context.prepared && use.direction == Direction::forward &&
         use.geometry.tiles() <= kTilesThatHideWeights;
}

/// The layout of all groups' transformed weights. Its dimensions are all that making them depends on.
Layout transformed_weights(const Use& use) {
  const Geometry& g = use.geometry;
  const int64_t bytes = g.groups * prepared_floats(use.kernels(), g) * static_cast<int64_t>(sizeof(float));
  return {.dims = {g.groups, g.outputs, g.inputs, winograd::kTaps, winograd::kTaps},
          .padded = {},
          .strides = {},
          .block_sizes = {},
          .block_dims = {},
          .form = "transformed",
          .form_elements = bytes / use.bytes_of(1)};
}

/// Zeroed memory for a tensor, with an address that a slot can hold.
class Room {
 public:
  explicit Room(int64_t bytes) : buffer_(allocate_host(bytes)), place_(buffer_.data()) {
    std::fill_n(buffer_.data(), bytes, std::byte{0});
  }
  void* const* slot() const { return &place_; }

 private:
  Buffer buffer_;
  void* place_;
};

}  // namespace

bool offers_own_winograd(const OpContext& context) {
  return use_of(context).has_value();
}

bool own_winograd_wins(const OpContext& context) {
  constexpr int64_t kVector = 16, kPixelsOfTile = winograd::kTile * winograd::kTile;
  const Use use = *use_of(context);
  const Geometry& g = use.geometry;
  const int64_t pixels = g.images * g.y_height * g.y_width;
  return &use.kernels() != &winograd::plain_kernels(use.storage) &&
         std::min(g.inputs, g.outputs) >= kVector && g.tiles() >= kFewestTiles &&
         3 * pixels >= kPixelsOfTile * g.tiles();
}

Choice select_own_winograd(const OpContext& context) {
  using Tag = dnnl::memory::format_tag;
  const Use use = *use_of(context);
  const winograd::Kernels& kernels = use.kernels();
  const bool wide = kernels.lanes == 16;
  const Tag images = wide ? Tag::nChw16c : Tag::nChw8c;
  const Layout x = layout_of(use.x, images), y = layout_of(use.y, images);
  const bool prepared = keeps_transformed_weights(context, use);
  const Layout w = prepared ? transformed_weights(use) : blocked_weights(use.w, kernels);
  Choice choice{.inputs = {x, w},
                .outputs = {y},
                .implementation = fmt::format("own:{}", kernels.name),
                .algorithm = kOwnWinograd};
  if (use.direction == Direction::data) choice.inputs = {y, w}, choice.outputs = {x};
  if (use.direction == Direction::weights) choice.inputs = {x, y}, choice.outputs = {w, Layout{}};
  const int64_t floats = use.direction == Direction::weights ? gradient_of(use)->workspace_floats()
                                                             : forward_of(use)->workspace_floats(prepared);
  choice.workspace_bytes = floats * static_cast<int64_t>(sizeof(float));
  choice.inputs.resize(context.inputs.size());
  if (use.residual) choice.inputs[Conv2d::kResidual] = y;
  return choice;
}

std::unique_ptr<Kernel> compile_own_winograd(const OpContext& context, const Choice& choice,
                                             const Slots& slots) {
  const Use use = *use_of(context);
  const Geometry& g = use.geometry;
  const int64_t x = use.bytes_of(g.inputs * g.height * g.width), outputs = use.bytes_of(g.outputs),
                y = outputs * g.y_height * g.y_width, weights = g.outputs * g.inputs * kTapsOfWeight;
  if (use.direction == Direction::weights) {
    void* const* bias = use.bias ? slots.outputs[Conv2dBackwardWeights::kDbias] : nullptr;
    return kernel([=, groups = g.groups, bytes = static_cast<int64_t>(g.outputs * sizeof(float)),
                   gradient = std::shared_ptr(gradient_of(use))] {
      for (int64_t i = 0; i < groups; ++i) {
        gradient->run({.x = of_group<const void>(slots.inputs[Conv2dBackwardWeights::kX], i, x),
                       .dy = of_group<const void>(slots.inputs[Conv2dBackwardWeights::kDy], i, y),
                       .dw = at<float>(slots.outputs[Conv2dBackwardWeights::kDweight]) + i * weights,
                       .db = of_group<float>(bias, i, bytes),
                       .workspace = at<float>(slots.workspace)});
      }
    });
  }
  const bool reversed = use.direction == Direction::data;
  const bool prepared = !reversed && choice.inputs[Conv2d::kWeight].is_opaque();
  void* const* bias = use.bias ? slots.inputs[Conv2d::kBias] : nullptr;
  void* const* from = reversed ? slots.inputs[Conv2dBackwardData::kDy] : slots.inputs[Conv2d::kX];
  void* const* w = reversed ? slots.inputs[Conv2dBackwardData::kWeight] : slots.inputs[Conv2d::kWeight];
  void* const* to = reversed ? slots.outputs[Conv2dBackwardData::kDx] : slots.outputs[Conv2d::kY];
  auto convolution = kernel([=, workspace = slots.workspace, groups = g.groups, read = reversed ? y : x,
                             written = reversed ? x : y, of_weights = use.bytes_of(weights),
                             of_u = prepared ? prepared_floats(use.kernels(), g) : 0,
                             forward = std::shared_ptr(forward_of(use))] {
    for (int64_t i = 0; i < groups; ++i) {
      forward->run({.x = of_group<const void>(from, i, read),
                    .w = prepared ? nullptr : of_group<const void>(w, i, of_weights),
                    .bias = of_group<const void>(bias, i, outputs),
                    .relu = use.relu,
                    .y = of_group<void>(to, i, written),
                    .workspace = at<float>(workspace),
                    .adds = use.residual,
                    .u = prepared ? at<const float>(w) + i * of_u : nullptr});
    }
  });
  if (!use.residual) return convolution;
  return adding_kernel(std::move(convolution),
                       stored_bytes(choice.outputs[Conv2d::kY], context.outputs[Conv2d::kY]),
                       slots.inputs[Conv2d::kResidual], to);
}

Layout untransformed_weights(const TensorSpec& w) {
  return blocked_weights(w.shape, winograd::best_kernels(storage_of(w.dtype)));
}

std::unique_ptr<Kernel> compile_transformed_weights(const TensorSpec& w, const Layout& to, void* const* from,
                                                    void* const* y) {
  const winograd::Kernels& kernels = winograd::best_kernels(storage_of(w.dtype));
  const Geometry g{.images = 1,
                   .inputs = to.dims[2],
                   .outputs = to.dims[1],
                   .height = 1,
                   .width = 1,
                   .y_height = 1,
                   .y_width = 1,
                   .top = 1,
                   .left = 1,
                   .groups = to.dims[0]};
  const int64_t bytes = g.inputs * g.outputs * kTapsOfWeight * bytes_per_element(w.dtype);
  return kernel([=, &kernels, floats = prepared_floats(kernels, g)] {
    for (int64_t i = 0; i < g.groups; ++i)
      prepare_weights(kernels, g, of_group<const void>(from, i, bytes), at<float>(y) + i * floats);
  });
}

double own_winograd_milliseconds(const OpContext& context) {
  const Choice choice = select_own_winograd(context);
  std::deque<Room> rooms;
  auto slots_of = [&](const std::vector<TensorSpec>& specs, const std::vector<Layout>& layouts) {
    std::vector<void* const*> slots;
    for (size_t i = 0; i < specs.size(); ++i) {
      const int64_t elements = specs[i].shape.empty() ? 0 : stored_elements(layouts[i], specs[i].shape);
      slots.push_back(rooms.emplace_back(elements * bytes_per_element(specs[i].dtype)).slot());
    }
    return slots;
  };
  Slots slots;
  slots.inputs = slots_of(context.inputs, choice.inputs);
  slots.outputs = slots_of(context.outputs, choice.outputs);
  slots.workspace = rooms.emplace_back(choice.workspace_bytes).slot();
  const auto kernel = compile_own_winograd(context, choice, slots);
  return shortest_milliseconds([&] { kernel->run(); });
}

}  // namespace trainer::cpu
