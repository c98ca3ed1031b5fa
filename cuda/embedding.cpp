// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/embedding.h"

#include "cuda/table.h"
#include "cuda/table_rows.h"

namespace trainer::cuda {
namespace {

/// Common parts of both directions: ids, and a table or the gradients of the rows read from it.
constexpr size_t kTokenIds = 0, kTableRows = 1;
static_assert(Embedding::kTable == kTableRows && EmbeddingBackward::kDy == kTableRows);

/// The second input has the rows: those of the table, or their gradients.
std::optional<std::string> why_not_rows(const Gpu& gpu, const OpContext& context) {
  return floats_only(gpu, {.op = context.op, .inputs = {context.inputs[kTableRows]}, .outputs = {}});
}

/// `along`: the ranks that share the table, of which each has `rows` rows.
TableAccess access_of(const Gpu& gpu, const OpContext& context, int64_t rows,
                      const std::optional<Along>& along) {
  const TableRows own{.begin = rows * gpu.position_along(along), .rows = rows};
  return {.row_of = along ? own : TableRows{},
          .tokens = numel(context.inputs[kTokenIds].shape),
          .rows = rows,
          .width = context.inputs[kTableRows].shape.back()};
}

/// It reads a row for each token, whatever the table has.
Choice select_forward(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = row_major(context, "rows");
  choice.again_bytes = bytes_of(context.outputs[Embedding::kY]) - bytes_of(context.inputs[Embedding::kTable]);
  return choice;
}

std::unique_ptr<Kernel> compile_forward(const Gpu& gpu, const OpContext& context, const Choice&,
                                        const Slots& slots) {
  return kernel(context,
                [=,
                 access = access_of(gpu, context, context.inputs[Embedding::kTable].shape[0],
                                    static_cast<const Embedding&>(context.op).along),
                 dtype = context.inputs[Embedding::kTable].dtype, stream = gpu.stream.get()]() mutable {
                  access.row_of.ids = at<const int32_t>(slots.inputs[Embedding::kIds]);
                  return launch_read_rows(access, dtype, *slots.inputs[Embedding::kTable],
                                          *slots.outputs[Embedding::kY], stream);
                });
}

Choice select_backward(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = row_major(context, "sorted tokens");
  choice.workspace_bytes = sum_rows_workspace(numel(context.inputs[EmbeddingBackward::kIds].shape));
  choice.kernels = sum_rows_kernels(numel(context.inputs[EmbeddingBackward::kIds].shape));
  return choice;
}

std::unique_ptr<Kernel> compile_backward(const Gpu& gpu, const OpContext& context, const Choice&,
                                         const Slots& slots) {
  return kernel(context,
                [=,
                 access = access_of(gpu, context, context.outputs[EmbeddingBackward::kDtable].shape[0],
                                    static_cast<const EmbeddingBackward&>(context.op).along),
                 dtype = context.inputs[EmbeddingBackward::kDy].dtype, stream = gpu.stream.get()]() mutable {
                  access.row_of.ids = at<const int32_t>(slots.inputs[EmbeddingBackward::kIds]);
                  return launch_sum_rows(access, dtype, *slots.inputs[EmbeddingBackward::kDy],
                                         at<float>(slots.outputs[EmbeddingBackward::kDtable]),
                                         *slots.workspace, stream);
                });
}

}  // namespace

void add_embedding(Handlers& handlers) {
  handlers[typeid(Embedding)] = {select_forward, compile_forward, why_not_rows};
  handlers[typeid(EmbeddingBackward)] = {select_backward, compile_backward, why_not_rows};
}

}  // namespace trainer::cuda
