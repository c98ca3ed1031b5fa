// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cpu/handler.h"

namespace trainer::cpu {

/// The algorithm of cpu/winograd, one of those for a convolution and for its two gradients.
constexpr const char* kOwnWinograd = "winograd, own";

/// Whether it exists for this use of an operation.
bool offers_own_winograd(const OpContext& context);

/// Fewer tiles do not repay the work on the weights, in any Winograd algorithm of 4x4 results.
constexpr int64_t kFewestTiles = 8;

/// Whether it is faster here than oneDNN's algorithms, as measured by tests/bench/winograd.cpp. Required are
/// AVX2 or AVX-512, full vectors of channels, enough tiles to repay the work on the weights, and a third of
/// their pixels in use.
bool own_winograd_wins(const OpContext& context);

Choice select_own_winograd(const OpContext& context);
std::unique_ptr<Kernel> compile_own_winograd(const OpContext& context, const Choice& choice,
                                             const Slots& slots);

/// Weights that are made once for one convolution (OpContext::prepared) may be kept transformed, in an opaque
/// layout. This is the layout that they are transformed from, and the kernel.
Layout untransformed_weights(const TensorSpec& w);
std::unique_ptr<Kernel> compile_transformed_weights(const TensorSpec& w, const Layout& to, void* const* from,
                                                    void* const* y);

/// The shortest of a few runs on memory of its own.
double own_winograd_milliseconds(const OpContext& context);

}  // namespace trainer::cpu
