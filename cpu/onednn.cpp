// SPDX-License-Identifier: Apache-2.0
#include "cpu/onednn.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "cpu/backend.h"
#include "cpu/parallel.h"

namespace trainer::cpu {
namespace {

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t d = shape.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

/// A dimension of size 1 has no second index, so its stride is meaningless.
bool is_row_major(const Layout& layout) {
  if (!layout.block_sizes.empty() || layout.has_padding()) return false;
  const Shape expected = row_major_strides(layout.dims);
  for (size_t d = 0; d < expected.size(); ++d) {
    if (layout.dims[d] != 1 && layout.strides[d] != expected[d]) return false;
  }
  return true;
}

class PrimitiveKernel final : public Kernel {
 public:
  PrimitiveKernel(std::shared_ptr<OneDnn> onednn, dnnl::primitive primitive,
                  const std::vector<Argument>& arguments)
      : onednn_(std::move(onednn)), primitive_(std::move(primitive)) {
    memories_.reserve(arguments.size());
    for (const Argument& argument : arguments) {
      memories_.emplace_back(argument.descriptor, onednn_->engine, *argument.slot);
      slots_.push_back(argument.slot);
      bound_.push_back(*argument.slot);
      arguments_.push_back({argument.number, memories_.back().get()});
    }
  }

  void run() override {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (*slots_[i] == bound_[i]) continue;
      memories_[i].set_data_handle(*slots_[i]);
      bound_[i] = *slots_[i];
    }
    telling_of_memory([&] {
      dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), onednn_->stream.get(),
                                                     static_cast<int>(arguments_.size()), arguments_.data()),
                              "oneDNN could not execute a primitive");
    });
  }

 private:
  std::shared_ptr<OneDnn> onednn_;
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<void* const*> slots_;
  std::vector<void*> bound_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

struct Instructions {
  std::string_view name;
  dnnl::cpu_isa isa;
};

/// Each has those before it.
constexpr std::array<Instructions, 5> kInstructions = {{{"sse41", dnnl::cpu_isa::sse41},
                                                        {"avx2", dnnl::cpu_isa::avx2},
                                                        {"avx512", dnnl::cpu_isa::avx512_core},
                                                        {"avx512_vnni", dnnl::cpu_isa::avx512_core_vnni},
                                                        {"avx512_bf16", dnnl::cpu_isa::avx512_core_bf16}}};

/// By limit_instructions.
bool are_chosen = false;

}  // namespace

dnnl::memory::data_type to_onednn(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return dnnl::memory::data_type::f32;
    case DType::u8:
      return dnnl::memory::data_type::u8;
    case DType::i8:
      return dnnl::memory::data_type::s8;
    case DType::i32:
      return dnnl::memory::data_type::s32;
    case DType::bf16:
      return dnnl::memory::data_type::bf16;
    case DType::f16:
      return dnnl::memory::data_type::f16;
  }
  return dnnl::memory::data_type::undef;
}

void limit_instructions(const std::string& name) {
  const auto* const row = std::ranges::find(kInstructions, name, &Instructions::name);
  if (row == kInstructions.end()) throw std::logic_error("unknown instructions: " + name);
  static const std::string chosen = name;  // oneDNN takes the first only
  static const dnnl::status set = dnnl::set_max_cpu_isa(row->isa);
  if (chosen != name) throw std::logic_error("other instructions were chosen before: " + chosen);
  if (set != dnnl::status::success && set != dnnl::status::unimplemented)
    throw std::logic_error("oneDNN was used before its instructions were chosen");
  are_chosen = true;
  if (instructions_in_use() == name) return;
  throw Error(ExitCode::no_device,
              fmt::format("device.instructions={}: this processor has {} at most; write that, or auto", name,
                          instructions_in_use()));
}

std::string instructions_in_use() {
  std::string best = "none";
  for (const Instructions& each : kInstructions) {
    if (may_use(each.isa)) best = each.name;
  }
  return best;
}

void avoid_amx() {
  if (are_chosen) return;
  if (std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr || std::getenv("DNNL_MAX_CPU_ISA") != nullptr) return;
  static const dnnl::status set = dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
  // Built for another processor, oneDNN has no such choice, and no AMX.
  if (set != dnnl::status::success && set != dnnl::status::unimplemented)
    throw std::logic_error("oneDNN was used before its instructions were chosen");
}

bool may_use(dnnl::cpu_isa wanted) {
  avoid_amx();
  const auto found = static_cast<unsigned>(dnnl::get_effective_cpu_isa()),
             bits = static_cast<unsigned>(wanted);
  return (found & bits) == bits;
}

dnnl::memory::desc to_descriptor(const Layout& layout, const Shape& shape, DType dtype) {
  if (layout.row_major()) return {shape, to_onednn(dtype), row_major_strides(shape)};
  return blocked_descriptor(layout, to_onednn(dtype));
}

dnnl::memory::desc any_layout(const Shape& shape, DType dtype) {
  return {shape, to_onednn(dtype), dnnl::memory::format_tag::any};
}

Layout to_layout(const dnnl::memory::desc& descriptor, const Shape& shape) {
  const std::optional<Layout> layout = layout_of(descriptor);
  if (!layout) {
    throw std::logic_error("oneDNN chose a layout for a tensor of shape " + to_string(shape) +
                           " that is not made of blocks alone");
  }
  return is_row_major(*layout) ? Layout{} : *layout;
}

dnnl::primitive_attr with_user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  // Whatever ONEDNN_DEFAULT_FPMATH_MODE says: products of f32 are of f32.
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return attributes;
}

std::optional<std::string> why_not(Precision precision, bool emulate_bf16) {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  auto has = [isa](dnnl::cpu_isa wanted) {
    const auto bits = static_cast<unsigned>(wanted);
    return (isa & bits) == bits;
  };
  switch (precision) {
    case Precision::fp32:
      return std::nullopt;
    case Precision::tf32:
      return "only GPUs have tf32; write fp32";
    case Precision::amp_fp16:
      return "the CPU has no fp16 arithmetic; write amp_bf16 or fp32, or device.type=cuda";
    case Precision::amp_bf16:
      if (has(dnnl::cpu_isa::avx512_core_bf16)) return std::nullopt;
      if (!has(dnnl::cpu_isa::avx512_core)) {
        return "this processor has neither bf16 instructions nor AVX-512 to emulate them with; write fp32";
      }
      if (emulate_bf16) return std::nullopt;
      return "this processor has no bf16 instructions (avx512_bf16); write fp32 or, to have them emulated "
             "slowly, "
             "device.emulate_bf16=true";
  }
  return std::nullopt;
}

int64_t stored_bytes(const Layout& layout, const TensorSpec& spec) {
  return stored_elements(layout, spec.shape) * bytes_per_element(spec.dtype);
}

std::unique_ptr<Kernel> adding_kernel(std::unique_ptr<Kernel> product, int64_t bytes, void* const* added,
                                      void* const* y) {
  return kernel([=, product = std::shared_ptr(std::move(product))] {
    if (*added != *y) {
      parallel_elements(bytes, [&](int64_t begin, int64_t end) {
        std::memcpy(at<std::byte>(y) + begin, at<const std::byte>(added) + begin,
                    static_cast<size_t>(end - begin));
      });
    }
    product->run();
  });
}

std::unique_ptr<Kernel> primitive_kernel(std::shared_ptr<OneDnn> onednn, const dnnl::primitive& primitive,
                                         const std::vector<Argument>& arguments) {
  return std::make_unique<PrimitiveKernel>(std::move(onednn), primitive, arguments);
}

}  // namespace trainer::cpu

namespace trainer {

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace trainer
