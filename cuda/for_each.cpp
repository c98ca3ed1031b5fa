// SPDX-License-Identifier: Apache-2.0
#include "cuda/for_each.h"

#include <fmt/format.h>

#include <typeinfo>

#include "core/graph/ops/binary.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/for_each.h"
#include "core/graph/ops/lerp.h"
#include "cuda/elementwise.h"
#include "cuda/movement.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

const ForEach& op_of(const OpContext& context) {
  return static_cast<const ForEach&>(context.op);
}

bool is_cast(const ForEach& op) {
  const Operation& each = *op.ops[0];
  return typeid(each) == typeid(Cast);
}

bool is_add(const ForEach& op) {
  const auto* each = dynamic_cast<const Binary*>(op.ops[0].get());
  return each != nullptr && each->kind == Binary::Kind::add && !each->relu;
}

std::optional<std::string> why_not_each(const Gpu& gpu, const OpContext& context) {
  const Operation& each = *op_of(context).ops[0];
  if (typeid(each) == typeid(Cast) || typeid(each) == typeid(Lerp) || is_add(op_of(context)))
    return floats_only(gpu, context);
  return fmt::format("no GPU kernel does {} for many tensors", each.name());
}

/// No layout of the GPU has padding, so a set may have any, if its tensors have the same. A tensor that has
/// no reader yet is probably a convolution's weights.
Layout layout_of_set(const TensorSpec& x, const OpenLayouts& inputs, size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i) {
    if (inputs[i]) return *inputs[i];
  }
  return x.shape.size() == 4 ? channels_last(x.shape) : Layout{};
}

/// A lerp's last input is a number.
size_t tensors_of_set(const ForEach& op) {
  return is_cast(op) ? 1 : 2;
}

Choice select_each(const Gpu&, const OpContext& context, const OpenLayouts& inputs) {
  const ForEach& op = op_of(context);
  Choice choice = row_major(context, "one pass");
  for (size_t set = 0; set < context.outputs.size(); ++set) {
    const size_t first = set * op.inputs_of_set, tensors = tensors_of_set(op);
    choice.outputs[set] = layout_of_set(context.inputs[first], inputs, first, tensors);
    for (size_t i = first; i < first + tensors; ++i) choice.inputs[i] = choice.outputs[set];
  }
  choice.kernels = parameter_tables(context.outputs.size());
  return choice;
}

std::unique_ptr<Kernel> compile_each(const Gpu& gpu, const OpContext& context, const Choice&,
                                     const Slots& slots) {
  const ForEach& op = op_of(context);
  std::vector<TensorPointers> all(context.outputs.size());
  for (size_t set = 0; set < all.size(); ++set) {
    all[set].count = numel(context.outputs[set].shape);
    const auto* lerp = dynamic_cast<const Lerp*>(op.ops[set].get());
    if (lerp == nullptr) continue;
    all[set].share = static_cast<float>(lerp->share);
    all[set].scale = static_cast<float>(lerp->scale);
  }
  auto now = [all, slots, step = op.inputs_of_set, two = tensors_of_set(op) == 2]() mutable {
    for (size_t set = 0; set < all.size(); ++set) {
      all[set].x = *slots.inputs[set * step];
      all[set].other = two ? *slots.inputs[set * step + 1] : nullptr;
      all[set].y = *slots.outputs[set];
    }
    return std::span<const TensorPointers>(all);
  };
  const DType from = context.inputs[0].dtype, to = context.outputs[0].dtype;
  cudaStream_t stream = gpu.stream.get();
  if (is_cast(op)) return kernel(context, [=]() mutable { return launch_cast_all(from, to, now(), stream); });
  if (is_add(op)) return kernel(context, [=]() mutable { return launch_add_all(from, now(), stream); });
  return kernel(context, [=, skip = slots.inputs[Lerp::kSkip]]() mutable {
    return launch_lerp_all(optional_at<const float>(skip), from, now(), stream);
  });
}

}  // namespace

void add_for_each(Handlers& handlers) {
  handlers[typeid(ForEach)] = {select_each, compile_each, why_not_each};
}

}  // namespace trainer::cuda
