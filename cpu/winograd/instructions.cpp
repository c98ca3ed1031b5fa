// SPDX-License-Identifier: Apache-2.0
#include "cpu/winograd/instructions.h"

#include "cpu/onednn.h"

namespace trainer::cpu::winograd {

std::vector<const Kernels*> usable_kernels(Storage storage) {
  std::vector<const Kernels*> usable;
  auto add = [&](const Kernels* kernels, dnnl::cpu_isa needed) {
    if (kernels != nullptr && may_use(needed)) usable.push_back(kernels);
  };
  add(avx512_kernels(storage), dnnl::cpu_isa::avx512_core);
  add(avx2_kernels(storage), dnnl::cpu_isa::avx2);
  usable.push_back(&plain_kernels(storage));
  return usable;
}

}  // namespace trainer::cpu::winograd
