// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <stdexcept>

#include "core/graph/ops/assign.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/concat.h"
#include "core/graph/ops/reorder.h"
#include "cpu/columns.h"
#include "cpu/onednn.h"
#include "cpu/own_winograd.h"
#include "cpu/parallel.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

/// Both layouts as views of one shape: a blocked one may have more dimensions than the tensor.
std::pair<dnnl::memory::desc, dnnl::memory::desc> reorder_descriptors(const OpContext& c,
                                                                      const Choice& choice) {
  const Layout &from = choice.inputs[Reorder::kX], &to = choice.outputs[Reorder::kY];
  const Shape& shape = !from.row_major() ? from.dims
                       : !to.row_major() ? to.dims
                                         : c.inputs[Reorder::kX].shape;
  return {to_descriptor(from, shape, c.inputs[Reorder::kX].dtype),
          to_descriptor(to, shape, c.outputs[Reorder::kY].dtype)};
}

dnnl::reorder::primitive_desc reorder_primitive(const OneDnn& onednn, const OpContext& c,
                                                const Choice& choice) {
  const auto [from, to] = reorder_descriptors(c, choice);
  return {onednn.engine, from, onednn.engine, to, with_user_scratchpad()};
}

/// Two blocked layouts with different dimensions have no single reorder between them; moving element by
/// element always works.
bool needs_moving_one_by_one(const Choice& choice) {
  const Layout &from = choice.inputs[Reorder::kX], &to = choice.outputs[Reorder::kY];
  return !from.row_major() && !to.row_major() && from.dims != to.dims;
}

std::vector<int64_t> places(const Layout& layout, const Shape& shape) {
  std::vector<int64_t> all;
  for_each_place(layout, shape, [&](int64_t place) { all.push_back(place); });
  return all;
}

template <class From, class To>
std::unique_ptr<Kernel> moving_kernel(const OpContext& c, const Choice& choice, const Slots& slots) {
  const Shape& shape = c.inputs[Reorder::kX].shape;
  const auto stored = static_cast<size_t>(stored_elements(choice.outputs[Reorder::kY], shape));
  return kernel([=, from = places(choice.inputs[Reorder::kX], shape),
                 to = places(choice.outputs[Reorder::kY], shape), src = slots.inputs[Reorder::kX],
                 dst = slots.outputs[Reorder::kY]] {
    std::memset(at<char>(dst), 0, stored * sizeof(To));
    for (size_t i = 0; i < from.size(); ++i) {
      const From value = at<const From>(src)[from[i]];
      if constexpr (std::is_same_v<From, To>) {
        at<To>(dst)[to[i]] = value;
      } else {
        at<To>(dst)[to[i]] = To(float(value));
      }
    }
  });
}

std::unique_ptr<Kernel> compile_moving(const OpContext& c, const Choice& choice, const Slots& slots) {
  if (bytes_per_element(c.inputs[Reorder::kX].dtype) == 1)
    return moving_kernel<uint8_t, uint8_t>(c, choice, slots);
  return with_storage(c.inputs[Reorder::kX].dtype, [&](auto from) {
    return with_storage(c.outputs[Reorder::kY].dtype, [&](auto to) {
      return moving_kernel<decltype(from), decltype(to)>(c, choice, slots);
    });
  });
}

/// Weights in tiles of 16 x 16 output and input channels, which a convolution's forward and backward kernels
/// need transposed; oneDNN's own reorder takes three times as long.
constexpr int64_t kTile = 16;
constexpr const char* kTransposedTiles = "transposed tiles";

bool is_tiled(const Layout& layout) {
  const std::vector<int64_t> tile{kTile, kTile};
  const bool channels =
      layout.block_dims == std::vector<int64_t>{0, 1} || layout.block_dims == std::vector<int64_t>{1, 0};
  return layout.dims.size() == 4 && layout.block_sizes == tile && channels;
}

bool transposes_tiles(const Choice& choice) {
  const Layout &from = choice.inputs[Reorder::kX], &to = choice.outputs[Reorder::kY];
  return is_tiled(from) && is_tiled(to) && from.dims == to.dims && from.block_dims != to.block_dims;
}

TRAINER_MULTIVERSION void transpose_tile(const float* __restrict from, float* __restrict to) {
  for (int64_t i = 0; i < kTile; ++i) {
    for (int64_t j = 0; j < kTile; ++j) to[i * kTile + j] = from[j * kTile + i];
  }
}

std::unique_ptr<Kernel> compile_tiles(const Choice& choice, const Slots& slots) {
  const Layout from = choice.inputs[Reorder::kX], to = choice.outputs[Reorder::kY];
  const int64_t rows = from.padded[0] / kTile, columns = from.padded[1] / kTile,
                area = from.dims[2] * from.dims[3];
  return kernel([=, src = slots.inputs[Reorder::kX], dst = slots.outputs[Reorder::kY]] {
    parallel_rows(rows * columns, area * kTile * kTile, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t row = tile / columns, column = tile % columns;
        for (int64_t place = 0; place < area; ++place) {
          const int64_t y = place / from.dims[3], x = place % from.dims[3];
          auto offset = [&](const Layout& l) {
            return row * l.strides[0] + column * l.strides[1] + y * l.strides[2] + x * l.strides[3];
          };
          transpose_tile(at<const float>(src) + offset(from), at<float>(dst) + offset(to));
        }
      }
    });
  });
}

std::unique_ptr<Kernel> compile_reorder(const std::shared_ptr<OneDnn>& onednn, const OpContext& c,
                                        const Choice& choice, const Slots& slots);

/// Into the workspace in the layout and type that the transform reads, and from there. A cast may be part of
/// it.
std::unique_ptr<Kernel> compile_opaque(const std::shared_ptr<OneDnn>& onednn, const OpContext& c,
                                       const Choice& choice, const Slots& slots) {
  const TensorSpec& w = c.outputs[Reorder::kY];
  const Choice first = select_reorder(c, choice.inputs[Reorder::kX], untransformed_weights(w));
  if (first.workspace_bytes > 0) throw std::logic_error("a reorder of weights needs a workspace of its own");
  std::shared_ptr<Kernel> reorder = compile_reorder(
      onednn, c, first, {.inputs = slots.inputs, .outputs = {slots.workspace}, .workspace = slots.workspace});
  std::shared_ptr<Kernel> transform = compile_transformed_weights(
      w, choice.outputs[Reorder::kY], slots.workspace, slots.outputs[Reorder::kY]);
  return kernel([=] {
    reorder->run();
    transform->run();
  });
}

std::unique_ptr<Kernel> compile_reorder(const std::shared_ptr<OneDnn>& onednn, const OpContext& c,
                                        const Choice& choice, const Slots& slots) {
  if (choice.outputs[Reorder::kY].is_opaque()) return compile_opaque(onednn, c, choice, slots);
  if (needs_moving_one_by_one(choice)) return compile_moving(c, choice, slots);
  if (choice.implementation == kTransposedTiles) return compile_tiles(choice, slots);
  const auto found = reorder_primitive(*onednn, c, choice);
  return primitive_kernel(onednn, dnnl::reorder(found),
                          {{DNNL_ARG_FROM, found.src_desc(), slots.inputs[Reorder::kX]},
                           {DNNL_ARG_TO, found.dst_desc(), slots.outputs[Reorder::kY]},
                           workspace_argument(found, choice, slots)});
}

/// Channels in a block of the layout, if `shape` holds whole blocks only; else 1, row-major.
int64_t whole_lanes(const Layout& layout, const Shape& shape) {
  if (shape.size() != 4) return 1;
  const auto blocks = channel_blocks(layout, shape);
  return blocks && shape[1] % blocks->lanes == 0 ? blocks->lanes : 1;
}

/// Parts of whole blocks are stored one after another within a sample as they do row-major: the same copies
/// serve.
Choice select_concat(const OpContext& c, const OpenLayouts& inputs) {
  Choice choice = select_row_major(c, inputs);
  if (static_cast<const Concat&>(c.op).axis != 1) return choice;
  const int64_t lanes = whole_lanes(inputs[0].value_or(Layout{}), c.inputs[0].shape);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (whole_lanes(inputs[i].value_or(Layout{}), c.inputs[i].shape) != lanes) return choice;
  }
  if (lanes == 1) return choice;
  for (size_t i = 0; i < inputs.size(); ++i) choice.inputs[i] = *inputs[i];
  choice.outputs[Concat::kY] = channel_layout(lanes, c.outputs[Concat::kY].shape);
  return choice;
}

Choice select_slice(const OpContext& c, const OpenLayouts& inputs) {
  Choice choice = select_row_major(c, inputs);
  const auto& op = static_cast<const Slice&>(c.op);
  const int64_t lanes = whole_lanes(inputs[Slice::kX].value_or(Layout{}), c.inputs[Slice::kX].shape);
  if (op.axis != 1 || lanes == 1 || op.begin % lanes != 0 || op.length % lanes != 0) return choice;
  choice.inputs[Slice::kX] = *inputs[Slice::kX];
  choice.outputs[Slice::kY] = channel_layout(lanes, c.outputs[Slice::kY].shape);
  return choice;
}

/// A tensor around `axis`: `outer` pieces of `length * inner` bytes.
struct Pieces {
  int64_t outer = 1, inner_bytes = 1;
  Pieces(const TensorSpec& spec, int64_t axis) {
    for (int64_t d = 0; d < axis; ++d) outer *= spec.shape[static_cast<size_t>(d)];
    for (size_t d = static_cast<size_t>(axis) + 1; d < spec.shape.size(); ++d) inner_bytes *= spec.shape[d];
    inner_bytes *= bytes_per_element(spec.dtype);
  }
};

void copy_pieces(const char* src, int64_t src_step, char* dst, int64_t dst_step, int64_t bytes,
                 int64_t count) {
  parallel_rows(count, bytes / 4, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(dst + i * dst_step, src + i * src_step, static_cast<size_t>(bytes));
    }
  });
}

std::unique_ptr<Kernel> compile_concat(const OpContext& c, const Choice&, const Slots& slots) {
  const int64_t axis = static_cast<const Concat&>(c.op).axis;
  const auto along = static_cast<size_t>(axis);
  const Pieces pieces(c.outputs[Concat::kY], axis);
  const int64_t row = c.outputs[Concat::kY].shape[along] * pieces.inner_bytes;
  std::vector<int64_t> lengths;
  for (const TensorSpec& input : c.inputs) lengths.push_back(input.shape[along] * pieces.inner_bytes);
  return kernel([=, in = slots.inputs, y = slots.outputs[Concat::kY]] {
    int64_t offset = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      copy_pieces(at<const char>(in[i]), lengths[i], at<char>(y) + offset, row, lengths[i], pieces.outer);
      offset += lengths[i];
    }
  });
}

std::unique_ptr<Kernel> compile_slice(const OpContext& c, const Choice&, const Slots& slots) {
  const auto& op = static_cast<const Slice&>(c.op);
  const Pieces pieces(c.inputs[Slice::kX], op.axis);
  const int64_t row = c.inputs[Slice::kX].shape[static_cast<size_t>(op.axis)] * pieces.inner_bytes;
  const int64_t skip = op.begin * pieces.inner_bytes, length = op.length * pieces.inner_bytes;
  return kernel([=, x = slots.inputs[Slice::kX], y = slots.outputs[Slice::kY]] {
    copy_pieces(at<const char>(x) + skip, row, at<char>(y), length, length, pieces.outer);
  });
}

std::unique_ptr<Kernel> compile_assign(const OpContext& c, const Choice& choice, const Slots& slots) {
  const auto bytes =
      static_cast<size_t>(stored_elements(choice.inputs[Assign::kState], c.inputs[Assign::kState].shape) *
                          bytes_per_element(c.inputs[Assign::kState].dtype));
  return kernel([=, state = slots.inputs[Assign::kState], value = slots.inputs[Assign::kValue]] {
    std::memcpy(at<char>(state), at<const char>(value), bytes);
  });
}

template <class From, class To>
TRAINER_MULTIVERSION void cast_range(const From* x, To* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) put(float(x[i]), y[i]);
}

/// In one layout a loop, else a reorder that changes the type as well.
std::unique_ptr<Kernel> compile_cast(const std::shared_ptr<OneDnn>& onednn, const OpContext& c,
                                     const Choice& choice, const Slots& slots) {
  if (choice.inputs[Cast::kX] != choice.outputs[Cast::kY]) return compile_reorder(onednn, c, choice, slots);
  const int64_t count = stored_elements(choice.inputs[Cast::kX], c.inputs[Cast::kX].shape);
  return with_storage(c.inputs[Cast::kX].dtype, [&](auto from) {
    return with_storage(c.outputs[Cast::kY].dtype, [&](auto to) {
      return kernel([=, x = slots.inputs[Cast::kX], y = slots.outputs[Cast::kY]] {
        parallel_elements(count, [=](int64_t begin, int64_t end) {
          cast_range(at<const decltype(from)>(x) + begin, at<decltype(to)>(y) + begin, end - begin);
        });
      });
    });
  });
}

}  // namespace

Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to) {
  Choice choice{.inputs = {from}, .outputs = {to}, .implementation = "loop", .algorithm = ""};
  choice.inputs.resize(context.inputs.size());
  const bool f32 =
      context.inputs[Reorder::kX].dtype == DType::f32 && context.outputs[Reorder::kY].dtype == DType::f32;
  if (context.inputs[Reorder::kX].dtype == DType::u8 && context.outputs[Reorder::kY].dtype != DType::u8)
    return choice;  // pixels: see cpu/pixels.cpp
  if (to.is_opaque()) {
    choice.workspace_bytes =
        stored_bytes(untransformed_weights(context.outputs[Reorder::kY]), context.outputs[Reorder::kY]);
    return choice;
  }
  if (transposes_tiles(choice) && f32) {
    choice.implementation = kTransposedTiles;
  } else if (!needs_moving_one_by_one(choice)) {
    describe(choice, reorder_primitive(OneDnn{}, context, choice));
  }
  return choice;
}

void add_movement(Handlers& handlers) {
  const auto onednn = std::make_shared<OneDnn>();
  auto same = [](const OpContext& context, const OpenLayouts& inputs) {
    return select_same(context, inputs, true);
  };
  auto assign = [](const OpContext& context, const OpenLayouts& inputs) {
    return select_same(context, {inputs[Assign::kState] ? inputs[Assign::kState] : inputs[Assign::kValue]},
                       true);
  };
  handlers[typeid(Reorder)] = {same,
                               [onednn](const OpContext& c, const Choice& choice, const Slots& slots) {
                                 return compile_reorder(onednn, c, choice, slots);
                               },
                               {}};
  handlers[typeid(Cast)] = {same,
                            [onednn](const OpContext& c, const Choice& choice, const Slots& slots) {
                              return compile_cast(onednn, c, choice, slots);
                            },
                            {}};
  handlers[typeid(Concat)] = {select_concat, compile_concat, {}};
  handlers[typeid(Slice)] = {select_slice, compile_slice, {}};
  handlers[typeid(Assign)] = {assign, compile_assign, {}};
}

}  // namespace trainer::cpu
