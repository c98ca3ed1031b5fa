// SPDX-License-Identifier: Apache-2.0
#include "cpu/onednn_release.h"

#include <algorithm>
#include <stdexcept>

namespace trainer::cpu {

#if DNNL_VERSION_MAJOR >= 3

namespace {

/// A dimension in one block has no next one, so its stride is meaningless.
bool is_same(const Layout& a, const Layout& b) {
  if (a.dims != b.dims || a.padded != b.padded || a.block_sizes != b.block_sizes ||
      a.block_dims != b.block_dims)
    return false;
  Shape blocks(a.dims.size(), 1);
  for (size_t i = 0; i < a.block_sizes.size(); ++i)
    blocks[static_cast<size_t>(a.block_dims[i])] *= a.block_sizes[i];
  for (size_t d = 0; d < a.dims.size(); ++d) {
    if (a.padded[d] != blocks[d] && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

}  // namespace

void append_relu(dnnl::post_ops& post) {
  post.append_eltwise(dnnl::algorithm::eltwise_elu, kNoSlope, 0.0f);
}

void append_clip(dnnl::post_ops& post, float low, float high) {
  post.append_eltwise(dnnl::algorithm::eltwise_clip, low, high);
}

namespace {

/// Every pixel of a window counts.
const dnnl::memory::dims kUndilated = {0, 0};

}  // namespace

dnnl::pooling_forward::primitive_desc describe_pooling(const dnnl::engine& engine,
                                                       const dnnl::primitive_attr& attributes,
                                                       dnnl::prop_kind kind, dnnl::algorithm how,
                                                       const dnnl::memory::desc& x,
                                                       const dnnl::memory::desc& y, const Windows& windows) {
  return describe_primitive<dnnl::pooling_forward>(engine, attributes, kind, how, x, y, windows.strides,
                                                   windows.kernel, kUndilated, windows.padding,
                                                   windows.padding);
}

dnnl::pooling_backward::primitive_desc describe_pooling_backward(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
    const dnnl::pooling_forward::primitive_desc& hint, dnnl::algorithm how, const dnnl::memory::desc& dx,
    const dnnl::memory::desc& dy, const Windows& windows) {
  return describe_backward<dnnl::pooling_backward>(engine, attributes, hint, how, dx, dy, windows.strides,
                                                   windows.kernel, kUndilated, windows.padding,
                                                   windows.padding);
}

/// Descriptors are opaque here: those with blocks are made only from oneDNN's tags, so the tag is searched.
static std::optional<dnnl::memory::desc> tagged_descriptor(const Layout& layout,
                                                           dnnl::memory::data_type type) {
  for (int tag = dnnl_format_tag_any + 1; tag < dnnl_format_tag_last; ++tag) {
    constexpr bool kNullIfRefused = true;
    const dnnl::memory::desc found(layout.dims, type, static_cast<dnnl::memory::format_tag>(tag),
                                   kNullIfRefused);
    if (!found) continue;
    const std::optional<Layout> offered = layout_of(found);
    if (offered && is_same(*offered, layout)) return found;
  }
  return std::nullopt;
}

dnnl::memory::desc blocked_descriptor(const Layout& layout, dnnl::memory::data_type type) {
  if (layout.block_sizes.empty()) return {layout.dims, type, layout.strides};
  if (const auto found = tagged_descriptor(layout, type)) return *found;
  throw std::logic_error("oneDNN has no tag for a layout of blocks");
}

bool has_descriptor(const Layout& layout) {
  return layout.block_sizes.empty() || tagged_descriptor(layout, dnnl::memory::data_type::f32);
}

std::optional<Layout> layout_of(const dnnl::memory::desc& descriptor) {
  if (descriptor.get_format_kind() != dnnl::memory::format_kind::blocked ||
      descriptor.get_submemory_offset() != 0)
    return std::nullopt;
  Layout layout;
  layout.dims = descriptor.get_dims();
  layout.padded = descriptor.get_padded_dims();
  layout.strides = descriptor.get_strides();
  layout.block_sizes = descriptor.get_inner_blks();
  layout.block_dims = descriptor.get_inner_idxs();
  const auto stored = static_cast<size_t>(stored_elements(layout, layout.dims)) *
                      dnnl::memory::data_type_size(descriptor.get_data_type());
  if (descriptor.get_size() > stored) return std::nullopt;
  return layout;
}

#else

void append_relu(dnnl::post_ops& post) {
  post.append_eltwise(1.0f, dnnl::algorithm::eltwise_elu, kNoSlope, 0.0f);
}

void append_clip(dnnl::post_ops& post, float low, float high) {
  post.append_eltwise(1.0f, dnnl::algorithm::eltwise_clip, low, high);
}

dnnl::pooling_forward::primitive_desc describe_pooling(const dnnl::engine& engine,
                                                       const dnnl::primitive_attr& attributes,
                                                       dnnl::prop_kind kind, dnnl::algorithm how,
                                                       const dnnl::memory::desc& x,
                                                       const dnnl::memory::desc& y, const Windows& windows) {
  return describe_primitive<dnnl::pooling_forward>(engine, attributes, kind, how, x, y, windows.strides,
                                                   windows.kernel, windows.padding, windows.padding);
}

dnnl::pooling_backward::primitive_desc describe_pooling_backward(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
    const dnnl::pooling_forward::primitive_desc& hint, dnnl::algorithm how, const dnnl::memory::desc& dx,
    const dnnl::memory::desc& dy, const Windows& windows) {
  return describe_backward<dnnl::pooling_backward>(engine, attributes, hint, how, dx, dy, windows.strides,
                                                   windows.kernel, windows.padding, windows.padding);
}

dnnl::memory::desc blocked_descriptor(const Layout& layout, dnnl::memory::data_type type) {
  dnnl_memory_desc_t raw{};
  raw.ndims = static_cast<int>(layout.dims.size());
  raw.data_type = dnnl::memory::convert_to_c(type);
  raw.format_kind = dnnl_blocked;
  std::ranges::copy(layout.dims, raw.dims);
  std::ranges::copy(layout.padded, raw.padded_dims);
  dnnl_blocking_desc_t& blocking = raw.format_desc.blocking;
  std::ranges::copy(layout.strides, blocking.strides);
  blocking.inner_nblks = static_cast<int>(layout.block_sizes.size());
  std::ranges::copy(layout.block_sizes, blocking.inner_blks);
  std::ranges::copy(layout.block_dims, blocking.inner_idxs);
  return dnnl::memory::desc(raw);
}

bool has_descriptor(const Layout&) {
  return true;
}

std::optional<Layout> layout_of(const dnnl::memory::desc& descriptor) {
  const dnnl_memory_desc_t& raw = descriptor.data;
  if (raw.format_kind != dnnl_blocked || raw.offset0 != 0 || raw.extra.flags != 0) return std::nullopt;
  const dnnl_blocking_desc_t& blocking = raw.format_desc.blocking;
  Layout layout;
  layout.dims.assign(raw.dims, raw.dims + raw.ndims);
  layout.padded.assign(raw.padded_dims, raw.padded_dims + raw.ndims);
  layout.strides.assign(blocking.strides, blocking.strides + raw.ndims);
  layout.block_sizes.assign(blocking.inner_blks, blocking.inner_blks + blocking.inner_nblks);
  layout.block_dims.assign(blocking.inner_idxs, blocking.inner_idxs + blocking.inner_nblks);
  return layout;
}

#endif

}  // namespace trainer::cpu
