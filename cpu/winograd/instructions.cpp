// SPDX-License-Identifier: Apache-2.0
#include "cpu/winograd/instructions.h"

#include "cpu/onednn.h"

namespace trainer::cpu::winograd {

std::vector<const Kernels*> usable_kernels(Storage storage) {
  avoid_amx();
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  auto has = [isa](dnnl::cpu_isa wanted) {
    const auto bits = static_cast<unsigned>(wanted);
    return (isa & bits) == bits;
  };
  std::vector<const Kernels*> usable;
  auto add = [&](const Kernels* kernels, dnnl::cpu_isa needed) {
    if (kernels != nullptr && has(needed)) usable.push_back(kernels);
  };
  add(avx512_kernels(storage), dnnl::cpu_isa::avx512_core);
  add(avx2_kernels(storage), dnnl::cpu_isa::avx2);
  usable.push_back(&plain_kernels(storage));
  return usable;
}

}  // namespace trainer::cpu::winograd
