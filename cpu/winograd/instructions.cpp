// SPDX-License-Identifier: Apache-2.0
#include "cpu/winograd/instructions.h"

#include "cpu/onednn.h"

namespace trainer::cpu::winograd {

std::vector<const Kernels*> usable_kernels() {
  avoid_amx();
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  auto has = [isa](dnnl::cpu_isa wanted) {
    const auto bits = static_cast<unsigned>(wanted);
    return (isa & bits) == bits;
  };
  std::vector<const Kernels*> usable;
  if (avx512_kernels() != nullptr && has(dnnl::cpu_isa::avx512_core)) usable.push_back(avx512_kernels());
  if (avx2_kernels() != nullptr && has(dnnl::cpu_isa::avx2)) usable.push_back(avx2_kernels());
  usable.push_back(&plain_kernels());
  return usable;
}

}  // namespace trainer::cpu::winograd
