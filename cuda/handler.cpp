// SPDX-License-Identifier: Apache-2.0
#include "cuda/handler.h"

#include <fmt/format.h>

#include "cuda/block_sums.h"
#include "cuda/table.h"

namespace trainer::cuda {

std::optional<std::string> why_not(const Gpu& gpu, Precision precision) {
  constexpr int kAmpere = 80;  // the first with tensor cores for bf16 and tf32
  const bool wants_tf32 = precision == Precision::tf32;
  if ((wants_tf32 || precision == Precision::amp_bf16) && gpu.compute_capability < kAmpere) {
    return fmt::format("{} has compute capability {}.{}, and {} begins with 8.0; write amp_fp16 or fp32",
                       gpu.name, gpu.compute_capability / 10, gpu.compute_capability % 10,
                       wants_tf32 ? "tf32" : "bf16");
  }
  if (wants_tf32 == gpu.tf32) return std::nullopt;
  return fmt::format("{} was opened {} tf32, which the choice of engines depends on", gpu.name,
                     gpu.tf32 ? "for" : "without");
}

std::optional<std::string> floats_only(const Gpu&, const OpContext& context) {
  const DType dtype = context.inputs[0].dtype;
  if (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16) return std::nullopt;
  return fmt::format("its GPU kernel computes in floating point, not {}", to_string(dtype));
}

Counters make_counters(cudaStream_t stream) {
  constexpr auto kBytes = static_cast<size_t>(kCounterBytes);
  auto counters = make<Counters>("taking GPU memory", [](unsigned** made) {
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, kBytes);
    *made = static_cast<unsigned*>(memory);
    return status;
  });
  check(cudaMemsetAsync(counters.get(), 0, kBytes, stream), "clearing GPU memory");
  return counters;
}

Choice row_major(const OpContext& context, std::string implementation) {
  return {.inputs = std::vector<Layout>(context.inputs.size()),
          .outputs = std::vector<Layout>(context.outputs.size()),
          .implementation = std::move(implementation),
          .algorithm = ""};
}

Choice same_layout(const OpContext& context, const OpenLayouts& inputs, std::string implementation) {
  Choice choice = row_major(context, std::move(implementation));
  Layout layout = inputs[0].value_or(Layout{});
  const Shape& shape = context.inputs[0].shape;
  if (stored_elements(layout, shape) != numel(shape)) layout = {};  // kernels count elements, without gaps
  for (size_t i = 0; i < choice.inputs.size(); ++i) {
    if (context.inputs[i].shape == context.inputs[0].shape) choice.inputs[i] = layout;
  }
  for (size_t i = 0; i < choice.outputs.size(); ++i) {
    if (context.outputs[i].shape == context.inputs[0].shape) choice.outputs[i] = layout;
  }
  return choice;
}

Choice all_channels_last(const OpContext& context, std::string implementation) {
  Choice choice = row_major(context, std::move(implementation));
  for (size_t i = 0; i < choice.inputs.size(); ++i) {
    if (context.inputs[i].shape.size() == 4) choice.inputs[i] = channels_last(context.inputs[i].shape);
  }
  for (size_t i = 0; i < choice.outputs.size(); ++i) {
    if (context.outputs[i].shape.size() == 4) choice.outputs[i] = channels_last(context.outputs[i].shape);
  }
  return choice;
}

Layout bytes_in_a_row(int64_t bytes) {
  return {.dims = {bytes}, .padded = {bytes}, .strides = {1}, .block_sizes = {}, .block_dims = {}};
}

int64_t row_step(const TensorSpec& spec) {
  constexpr int64_t kWide = 1024, kLoad = 16, kRow = 128;  // a gap is at most a sixteenth of a row
  const int64_t width = spec.shape.empty() ? 0 : spec.shape.back(), bytes = bytes_per_element(spec.dtype);
  if (spec.shape.size() > 3 || width < kWide || width * bytes % kLoad == 0) return width;
  return (width * bytes + kRow - 1) / kRow * kRow / bytes;
}

Layout rows_layout(const TensorSpec& spec) {
  const int64_t step = row_step(spec);
  if (spec.shape.size() < 2 || step == spec.shape.back()) return {};
  Layout layout{
      .dims = spec.shape, .padded = spec.shape, .strides = {step, 1}, .block_sizes = {}, .block_dims = {}};
  if (spec.shape.size() == 3) layout.strides.insert(layout.strides.begin(), step * spec.shape[1]);
  return layout;
}

Choice select_reorder(const OpContext& context, const Layout& from, const Layout& to) {
  Choice choice = row_major(context, "transpose");
  choice.inputs[0] = from;
  choice.outputs[0] = to;
  return choice;
}

Handlers own_handlers() {
  Handlers handlers;
#define TRAINER_ADD_ROW(function) function(handlers);
  TRAINER_CUDA_OWN(TRAINER_ADD_ROW)
#undef TRAINER_ADD_ROW
  return handlers;
}

}  // namespace trainer::cuda
