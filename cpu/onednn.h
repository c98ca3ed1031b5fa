// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cpu/handler.h"
#include "cpu/onednn_release.h"

namespace trainer::cpu {

/// oneDNN's engine and stream, shared by all its kernels.
struct OneDnn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

/// Keeps oneDNN from AMX, because its products in bf16 are wrong in release 2.6: of 128 rows or more and 65
/// to 128 columns some come out as about 1e36 or NaN. Works before the first use of oneDNN only; does nothing
/// if
/// the environment variable ONEDNN_MAX_CPU_ISA (or DNNL_MAX_CPU_ISA) makes the choice.
void avoid_amx();

/// The same with a choice of its own: at most these, "avx2". Throws Error (exit 69) if the processor does not
/// have them.
void limit_instructions(const std::string& name);

/// The name of those that are used: "avx512_vnni".
std::string instructions_in_use();

/// Whether oneDNN may use these instructions here. Loops of our own follow it, so that the environment
/// variable restricts both.
bool may_use(dnnl::cpu_isa wanted);

dnnl::memory::data_type to_onednn(DType dtype);

/// The descriptor of a tensor of `shape` (or of the layout's own view of it) in this layout.
dnnl::memory::desc to_descriptor(const Layout& layout, const Shape& shape, DType dtype = DType::f32);

/// A descriptor that leaves the layout to oneDNN.
dnnl::memory::desc any_layout(const Shape& shape, DType dtype = DType::f32);

/// The layout of a descriptor; row-major if it equals that for a tensor of `shape`.
Layout to_layout(const dnnl::memory::desc& descriptor, const Shape& shape);

/// Records in a choice how a primitive runs ("jit:avx512_core") and its scratch memory. `found` must be made
/// of the choice's layouts, like the primitive that runs: for open ones oneDNN may choose another, since a
/// tensor with dimensions of 1 fits several layouts.
template <class PrimitiveDesc>
void describe(Choice& choice, const PrimitiveDesc& found) {
  choice.implementation = found.impl_info_str();
  choice.workspace_bytes = static_cast<int64_t>(found.scratchpad_desc().get_size());
}

/// A handler with two functions that get oneDNN's engine first.
template <class Select, class Compile>
Handler onednn_handler(const std::shared_ptr<OneDnn>& onednn, Select select, Compile compile) {
  return {[=](const OpContext& c, const OpenLayouts& inputs) { return select(*onednn, c, inputs); },
          [=](const OpContext& c, const Choice& choice, const Slots& slots) {
            return compile(onednn, c, choice, slots);
          },
          {}};
}

/// The shortest of a few runs of a function.
template <class Work>
double shortest_milliseconds(const Work& work) {
  double shortest = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 4; ++run) {
    const auto before = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - before;
    shortest = std::min(shortest, spent.count());
  }
  return shortest;
}

/// The shortest of a few runs of a primitive on its own memory.
template <class Primitive>
double milliseconds(const OneDnn& onednn, const typename Primitive::primitive_desc& found) {
  std::unordered_map<int, dnnl::memory> arguments;
  for (int number : {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST, DNNL_ARG_DIFF_SRC,
                     DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_DST, DNNL_ARG_SCRATCHPAD}) {
    const dnnl::memory::desc descriptor = found.query_md(dnnl::query::exec_arg_md, number);
    if (descriptor.get_size() == 0) continue;
    const dnnl::memory memory(descriptor, onednn.engine);
    std::memset(memory.get_data_handle(), 0, descriptor.get_size());
    arguments.insert({number, memory});
  }
  const Primitive primitive(found);
  return shortest_milliseconds([&] { primitive.execute(onednn.stream, arguments); });
}

/// Calls `work`. If oneDNN gets no memory, this throws the usual std::bad_alloc.
template <class Work>
auto telling_of_memory(const Work& work) try {
  return work();
} catch (const dnnl::error& problem) {
  if (problem.status == dnnl_out_of_memory) throw std::bad_alloc();
  throw;
}

/// Takes scratch memory from the caller, as every primitive here does.
dnnl::primitive_attr with_user_scratchpad();

/// One argument of a primitive: oneDNN's number for it, its descriptor, and its address.
struct Argument {
  int number;
  dnnl::memory::desc descriptor;
  void* const* slot;
};

/// The scratch memory of a primitive. Throws std::logic_error if it needs more than was planned.
template <class PrimitiveDesc>
Argument workspace_argument(const PrimitiveDesc& found, const Choice& choice, const Slots& slots) {
  const dnnl::memory::desc scratch = found.scratchpad_desc();
  if (static_cast<int64_t>(scratch.get_size()) > choice.workspace_bytes)
    throw std::logic_error("oneDNN's " + std::string(found.impl_info_str()) + " needs more than was planned");
  return {DNNL_ARG_SCRATCHPAD, scratch, slots.workspace};
}

/// Bytes that a tensor takes in this layout.
int64_t stored_bytes(const Layout& layout, const TensorSpec& spec);

/// A product that adds to what its result's memory holds, after copying `added` there. The plan usually gives
/// both one address, so that nothing is copied.
std::unique_ptr<Kernel> adding_kernel(std::unique_ptr<Kernel> product, int64_t bytes, void* const* added,
                                      void* const* y);

/// A primitive with its arguments; a run costs no look-up, and sets a new address only if a slot has changed.
std::unique_ptr<Kernel> primitive_kernel(std::shared_ptr<OneDnn> onednn, const dnnl::primitive& primitive,
                                         const std::vector<Argument>& arguments);

}  // namespace trainer::cpu
