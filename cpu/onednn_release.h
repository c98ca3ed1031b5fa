// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string_view>
#include <type_traits>

#include "core/engine/layout.h"

namespace trainer::cpu {

// All that oneDNN 2 and 3 write differently. Its documentation is at uxlfoundation.github.io/oneDNN; what
// changed from 2 to 3 is under "Transition from v2.x to v3.x".

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

/// That of a backward primitive, whose hint is the descriptor of the forward one.
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

/// y = max(y, 0) after a product; NaN stays NaN. oneDNN's relu makes 0 of it on every instruction set. Its
/// elu asks for y > 0 and takes y if there is no order; alpha = 0 leaves nothing of y < 0. -0 makes that
/// alpha * (exp(y) - 1) a positive zero. The exponential costs a thread about 7 ns for sixteen elements.
dnnl::post_ops relu_after();
constexpr float kNoSlope = -0.0f;

/// A descriptor of the layout's own dimensions. Throws std::logic_error if oneDNN has no such layout.
dnnl::memory::desc blocked_descriptor(const Layout& layout, dnnl::memory::data_type type);

/// Whether oneDNN has such a layout.
bool has_descriptor(const Layout& layout);

/// Nothing if the descriptor is not made of blocks.
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
