// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <typeindex>
#include <unordered_map>
#include <utility>

#include "core/engine/backend.h"
#include "cuda/check.h"

namespace trainer::cuda {

/// The GPU as kernels see it: everything runs in the order in which it was put on the one stream.
struct Device {
  Stream stream;
  BlasHandle blas;
};

/// How the GPU runs one kind of operation. Both functions may keep `device`, which outlives them.
struct Handler {
  std::function<Choice(const Device& device, const OpContext&)> select;
  std::function<std::unique_ptr<Kernel>(const Device& device, const OpContext&, const Choice&, const Slots&)>
      compile;
};
using Handlers = std::unordered_map<std::type_index, Handler>;

// Each file of operations adds its own.
void add_elementwise(Handlers& handlers);
void add_linear(Handlers& handlers);

/// Every tensor row-major.
inline Choice row_major(const OpContext& context, std::string implementation) {
  return {.inputs = std::vector<Layout>(context.inputs.size()),
          .outputs = std::vector<Layout>(context.outputs.size()),
          .implementation = std::move(implementation),
          .algorithm = ""};
}

template <class T>
T* at(void* const* slot) {
  return static_cast<T*>(*slot);
}

}  // namespace trainer::cuda
