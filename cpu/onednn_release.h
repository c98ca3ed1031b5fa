// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string_view>
#include <type_traits>

#include "core/engine/layout.h"

namespace trainer::cpu {

// All differences between oneDNN 2 and 3. The documentation is at uxlfoundation.github.io/oneDNN; the changes
// from 2 to 3 are under "Transition from v2.x to v3.x".

/// The descriptor of a forward primitive, or of another without a hint; `arguments` in oneDNN's order.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe_primitive(const dnnl::engine& engine,
                                                      const dnnl::primitive_attr& attributes,
                                                      const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, arguments..., attributes};
#else
  return {typename Primitive::desc(arguments...), attributes, engine};
#endif
}

/// The same by the first of oneDNN's implementations whose name is accepted, or else by its last, the
/// reference.
template <class Primitive, class Accepts, class... Arguments>
typename Primitive::primitive_desc describe_accepted(const dnnl::engine& engine,
                                                     const dnnl::primitive_attr& attributes,
                                                     const Accepts& accepts, const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  typename Primitive::primitive_desc found(engine, arguments..., attributes);
#else
  const typename Primitive::desc wanted(arguments...);  // next_impl() reads it, too
  typename Primitive::primitive_desc found(wanted, attributes, engine);
#endif
  while (!accepts(std::string_view(found.impl_info_str())) && found.next_impl()) continue;
  return found;
}

/// That of a backward primitive; its hint is the descriptor of the forward one.
template <class Primitive, class Hint, class... Arguments>
typename Primitive::primitive_desc describe_backward(const dnnl::engine& engine,
                                                     const dnnl::primitive_attr& attributes, const Hint& hint,
                                                     const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, arguments..., hint, attributes};
#else
  const typename Primitive::desc wanted(arguments...);  // next_impl() reads it, too
  typename Primitive::primitive_desc found(wanted, attributes, engine, hint);
  // AArch64's depthwise gradient of weights is wrong at a stride of 2 on small images (release 2.6).
  if constexpr (std::is_same_v<Primitive, dnnl::convolution_backward_weights>)
    while (std::string_view(found.impl_info_str()) == "jit_dw:sve_512" && found.next_impl()) continue;
  return found;
#endif
}

/// y = max(y, 0) after a product; NaN stays NaN. oneDNN's relu turns it into 0 on every instruction set. Its
/// elu tests y > 0 and takes y if the comparison is unordered; with alpha = 0 nothing remains of y < 0. With
/// -0, alpha * (exp(y) - 1) is a positive zero. The exponential costs a thread about 7 ns for sixteen
/// elements.
void append_relu(dnnl::post_ops& post);
constexpr float kNoSlope = -0.0f;

/// y = min(max(y, low), high) after a product.
void append_clip(dnnl::post_ops& post, float low, float high);

/// A descriptor of the layout's own dimensions. Throws std::logic_error if oneDNN has no such layout.
dnnl::memory::desc blocked_descriptor(const Layout& layout, dnnl::memory::data_type type);

/// Whether oneDNN has this layout.
bool has_descriptor(const Layout& layout);

/// Nothing if the descriptor does not consist of blocks alone: for sources of s8 oneDNN appends sums to
/// weights.
std::optional<Layout> layout_of(const dnnl::memory::desc& descriptor);

/// The windows of a pooling, in oneDNN's terms.
struct Windows {
  dnnl::memory::dims strides, kernel, padding;
};

dnnl::pooling_forward::primitive_desc describe_pooling(const dnnl::engine& engine,
                                                       const dnnl::primitive_attr& attributes,
                                                       dnnl::prop_kind kind, dnnl::algorithm how,
                                                       const dnnl::memory::desc& x,
                                                       const dnnl::memory::desc& y, const Windows& windows);
dnnl::pooling_backward::primitive_desc describe_pooling_backward(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
    const dnnl::pooling_forward::primitive_desc& hint, dnnl::algorithm how, const dnnl::memory::desc& dx,
    const dnnl::memory::desc& dy, const Windows& windows);

}  // namespace trainer::cpu
