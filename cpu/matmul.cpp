// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/matmul.h"

#include <utility>

#include "cpu/onednn.h"
#include "cpu/table.h"

namespace trainer::cpu {
namespace {

/// A row-major matrix, or one for each sample; a transposed one is read with its strides exchanged.
dnnl::memory::desc matrix_descriptor(const TensorSpec& spec, bool is_transposed) {
  Shape dims = spec.shape, strides(dims.size(), 1);
  for (size_t d = dims.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * dims[d + 1];
  if (is_transposed) {
    const size_t rows = dims.size() - 2;
    std::swap(dims[rows], dims[rows + 1]);
    std::swap(strides[rows], strides[rows + 1]);
  }
  return {dims, to_onednn(spec.dtype), strides};
}

/// The tensors as oneDNN sees them.
struct MatMulDescriptors {
  dnnl::memory::desc a, b, y;

  explicit MatMulDescriptors(const OpContext& c)
      : a(matrix_descriptor(c.inputs[MatMul::kA], static_cast<const MatMul&>(c.op).transpose_a)),
        b(matrix_descriptor(c.inputs[MatMul::kB], static_cast<const MatMul&>(c.op).transpose_b)),
        y(matrix_descriptor(c.outputs[MatMul::kY], false)) {}

  dnnl::matmul::primitive_desc describe_on(const OneDnn& onednn) const {
    return describe_primitive<dnnl::matmul>(onednn.engine, with_user_scratchpad(), a, b, y);
  }
};

Choice select_matmul(const OneDnn& onednn, const OpContext& c, const OpenLayouts& inputs) {
  Choice choice = select_row_major(c, inputs);
  describe(choice, MatMulDescriptors(c).describe_on(onednn));
  return choice;
}

std::unique_ptr<Kernel> compile_matmul(const std::shared_ptr<OneDnn>& onednn, const OpContext& c,
                                       const Choice& choice, const Slots& slots) {
  const MatMulDescriptors d(c);
  const auto found = d.describe_on(*onednn);
  return primitive_kernel(onednn, dnnl::matmul(found),
                          {{DNNL_ARG_SRC, d.a, slots.inputs[MatMul::kA]},
                           {DNNL_ARG_WEIGHTS, d.b, slots.inputs[MatMul::kB]},
                           {DNNL_ARG_DST, d.y, slots.outputs[MatMul::kY]},
                           workspace_argument(found, choice, slots)});
}

}  // namespace

void add_matmul(Handlers& handlers) {
  handlers[typeid(MatMul)] = onednn_handler(std::make_shared<OneDnn>(), select_matmul, compile_matmul);
}

}  // namespace trainer::cpu
