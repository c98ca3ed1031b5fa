// SPDX-License-Identifier: Apache-2.0
#include "cuda/cudnn/attention_graph.h"

#include <cudnn_ops.h>
#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "core/base/error.h"

// cuDNN has no operation for attention's gradient, and one for causal attention only from release 9.21 on.
// But every release finds its fused kernels in graphs of products, element-wise functions and reductions of
// exactly the form below. It is the form of NVIDIA's cudnn-frontend.

namespace trainer::cuda::cudnn {
namespace {

using Uid = AttentionGraph::Uid;
using Sizes = std::array<int64_t, 4>;

Sizes dense(const Sizes& sizes) {
  return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
}

Sizes transposed(const Sizes& of) {
  return {of[0], of[1], of[3], of[2]};
}

/// (samples, heads, …); strides in elements.
struct Tensor {
  Sizes sizes, strides;
  cudnnDataType_t type;
  int64_t uid;
  bool is_virtual = false, by_value = false;
};

class Operations {
 public:
  explicit Operations(const AttentionGraph& graph)
      : low(graph.dtype == DType::f16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16), graph_(graph) {}

  const cudnnDataType_t low;  ///< the type of factors

  /// The caller's tensors.
  Tensor queries(int64_t uid) const { return sequences(uid, graph_.heads, graph_.q_row); }
  Tensor keys(int64_t uid) const { return sequences(uid, graph_.kv_heads, graph_.kv_row); }
  Tensor results(int64_t uid) const { return sequences(uid, graph_.heads, graph_.heads * graph_.size); }
  Tensor row_numbers(int64_t uid) const { return {of_rows(1), dense(of_rows(1)), CUDNN_DATA_FLOAT, uid}; }
  Tensor query_sums() const {
    const Sizes sizes = of_rows(graph_.size);
    return {sizes, dense(sizes), CUDNN_DATA_FLOAT, AttentionGraph::kQuerySums};
  }
  static Tensor number(int64_t uid) {
    return {.sizes = {1, 1, 1, 1},
            .strides = {1, 1, 1, 1},
            .type = CUDNN_DATA_FLOAT,
            .uid = uid,
            .by_value = true};
  }

  /// A tensor that never reaches memory.
  Tensor scores(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return in_between(of_rows(graph_.positions), type);
  }
  Tensor row_numbers() { return in_between(of_rows(1)); }
  Tensor of_heads(cudnnDataType_t type) { return in_between(of_rows(graph_.size), type); }
  Tensor in_between(const Sizes& sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return {sizes, dense(sizes), type, next_++, true};
  }

  // Each adds an operation, and returns `to`.

  Tensor product(const Tensor& a, const Tensor& b, Tensor to) {
    Descriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR, "a matrix product of attention");
    how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT).finalize();
    Descriptor& made = add(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    made.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how)
        .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, descriptor_of(a))
        .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, descriptor_of(b))
        .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, descriptor_of(to));
    made.finalize();
    return to;
  }
  Tensor reduction(cudnnReduceTensorOp_t op, const Tensor& from, Tensor to) {
    Descriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "a reduction of attention");
    how.set(CUDNN_ATTR_REDUCTION_OPERATOR, op)
        .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)
        .finalize();
    Descriptor& made = add(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    made.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how)
        .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, descriptor_of(from))
        .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, descriptor_of(to));
    made.finalize();
    return to;
  }
  Tensor reshape(const Tensor& from, Tensor to) {
    Descriptor& made = add(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    made.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, descriptor_of(from))
        .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, descriptor_of(to));
    made.finalize();
    return to;
  }
  Tensor pointwise(cudnnPointwiseMode_t mode, const std::vector<const Tensor*>& from, Tensor to,
                   cudnnDataType_t precision = CUDNN_DATA_FLOAT, int64_t axis = -1) {
    static constexpr cudnnBackendAttributeName_t kInputs[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                              CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                              CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
    Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "an element-wise function of attention");
    how.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, precision);
    if (axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
    how.finalize();
    Descriptor& made = add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    for (size_t i = 0; i < from.size(); ++i) made.set(kInputs[i], descriptor_of(*from[i]));
    made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, descriptor_of(to));
    made.finalize();
    return to;
  }
  Tensor binary(cudnnPointwiseMode_t mode, const Tensor& a, const Tensor& b, Tensor to) {
    return pointwise(mode, {&a, &b}, std::move(to));
  }

  Descriptor finished(cudnnHandle_t handle) const {
    Descriptor made(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "a graph of attention");
    made.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, made_);
    if (handle != nullptr) made.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
    made.finalize();
    return made;
  }

 private:
  Sizes of_rows(int64_t columns) const { return {graph_.samples, graph_.heads, graph_.positions, columns}; }
  Tensor sequences(int64_t uid, int64_t heads, int64_t row) const {
    const int64_t positions = graph_.positions, size = graph_.size;
    return {{graph_.samples, heads, positions, size}, {positions * row, size, row, 1}, low, uid};
  }
  static Descriptor descriptor_of(const Tensor& tensor) {
    const auto values = [](const Sizes& of) { return std::vector<int64_t>(of.begin(), of.end()); };
    Descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor of attention");
    made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, tensor.type)
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, values(tensor.sizes))
        .set(CUDNN_ATTR_TENSOR_STRIDES, values(tensor.strides))
        .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, tensor.uid)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16})
        .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, tensor.is_virtual)
        .set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, tensor.by_value);
    made.finalize();
    return made;
  }
  Descriptor& add(cudnnBackendDescriptorType_t type) {
    return made_.emplace_back(type, "an operation of attention");
  }

  const AttentionGraph& graph_;
  std::vector<Descriptor> made_;
  int64_t next_ = AttentionGraph::kFirstVirtual;
};

Tensor turned(const Tensor& of) {
  return {transposed(of.sizes), transposed(of.strides), of.type, of.uid, of.is_virtual};
}

/// scale * q kT
Tensor scaled_scores(Operations& add) {
  const Tensor q = add.queries(Uid::kQuery), k = add.keys(Uid::kKey);
  const Tensor scores = add.product(q, turned(k), add.scores());
  return add.binary(CUDNN_POINTWISE_MUL, scores, Operations::number(Uid::kScale), add.scores());
}

/// Minus infinity if a key comes after its query.
Tensor masked(Operations& add, const Tensor& scores) {
  const auto index = [&](int64_t axis) {
    return add.pointwise(CUDNN_POINTWISE_GEN_INDEX, {&scores}, add.scores(CUDNN_DATA_INT32), CUDNN_DATA_FLOAT,
                         axis);
  };
  const Tensor query = index(2), key = index(3), lowest = Operations::number(Uid::kMinusInfinity);
  const Tensor seen = add.pointwise(CUDNN_POINTWISE_CMP_GE, {&query, &key}, add.scores(CUDNN_DATA_BOOLEAN),
                                    CUDNN_DATA_BOOLEAN);
  return add.pointwise(CUDNN_POINTWISE_BINARY_SELECT, {&scores, &lowest, &seen}, add.scores());
}

void add_forward(const AttentionGraph& graph, Operations& add) {
  Tensor scores = scaled_scores(add);
  if (graph.causal) scores = masked(add, scores);
  const Tensor largest = add.reduction(CUDNN_REDUCE_TENSOR_MAX, scores, add.row_numbers());
  const Tensor shifted = add.binary(CUDNN_POINTWISE_SUB, scores, largest, add.scores());
  const Tensor exponentials = add.pointwise(CUDNN_POINTWISE_EXP, {&shifted}, add.scores());
  const Tensor sum = add.reduction(CUDNN_REDUCE_TENSOR_ADD, exponentials, add.row_numbers());
  // Even if it is not needed, an engine requires it.
  const Tensor log = add.pointwise(CUDNN_POINTWISE_LOG, {&sum}, add.row_numbers());
  add.binary(CUDNN_POINTWISE_ADD, largest, log,
             graph.log_sum ? add.row_numbers(Uid::kLogSum) : add.row_numbers());
  const Tensor p = add.binary(CUDNN_POINTWISE_DIV, exponentials, sum, add.scores(add.low));
  add.product(p, add.keys(Uid::kValue), add.results(Uid::kResult));
}

/// dy . y
Tensor products_of_rows(Operations& add) {
  const Tensor dy = add.results(Uid::kResultGradient), y = add.results(Uid::kResult);
  const Tensor all = add.binary(CUDNN_POINTWISE_MUL, dy, y, add.of_heads(CUDNN_DATA_FLOAT));
  const Tensor sums = add.reduction(CUDNN_REDUCE_TENSOR_ADD, all, add.row_numbers());
  // Dropout would have its factor here, and an engine requires one.
  return add.binary(CUDNN_POINTWISE_MUL, sums, Operations::number(Uid::kOne),
                    add.row_numbers(Uid::kProducts));
}

/// exp(scale * q kT - log_sum)
Tensor probabilities(const AttentionGraph& graph, Operations& add) {
  const Tensor scores = scaled_scores(add);
  Tensor shifted = add.binary(CUDNN_POINTWISE_SUB, scores, add.row_numbers(Uid::kLogSum), add.scores());
  if (graph.causal) shifted = masked(add, shifted);
  return add.pointwise(CUDNN_POINTWISE_EXP, {&shifted}, add.scores());
}

/// The transposed scores times `by`. Query heads that share a key head are added up.
void add_key_gradient(const AttentionGraph& graph, Operations& add, const Tensor& scores, const Tensor& by,
                      Uid uid) {
  Tensor columns = add.scores(add.low);
  columns.strides = transposed(columns.strides);
  add.reshape(scores, columns);
  if (graph.kv_heads == graph.heads) {
    add.product(columns, by, add.keys(uid));
    return;
  }
  const Tensor of_heads = add.product(columns, by, add.of_heads(add.low));
  add.reduction(CUDNN_REDUCE_TENSOR_ADD, of_heads, add.keys(uid));
}

/// dq = ds k
void add_query_gradient(const AttentionGraph& graph, Operations& add, const Tensor& ds) {
  const Tensor k = add.keys(Uid::kKey), dq = add.queries(Uid::kQueryGradient);
  Tensor again = add.in_between(k.sizes, add.low);
  again.strides = k.strides;
  add.reshape(turned(k), again);
  if (!graph.sums_dq()) {
    add.product(ds, again, dq);
    return;
  }
  const Tensor sums = add.product(ds, again, add.query_sums());
  add.pointwise(CUDNN_POINTWISE_IDENTITY, {&sums}, dq);
}

/// dv = pT dy, ds = scale * p * (dy vT - dy . y), dk = dsT q, dq = ds k
void add_backward(const AttentionGraph& graph, Operations& add) {
  const Tensor dy = add.results(Uid::kResultGradient), v = add.keys(Uid::kValue);
  const Tensor products = products_of_rows(add), p = probabilities(graph, add);
  add_key_gradient(graph, add, p, dy, Uid::kValueGradient);
  const Tensor dp = add.product(dy, turned(v), add.scores());
  const Tensor shifted = add.binary(CUDNN_POINTWISE_SUB, dp, products, add.scores());
  const Tensor weighted = add.binary(CUDNN_POINTWISE_MUL, shifted, p, add.scores());
  const Tensor ds = add.binary(CUDNN_POINTWISE_MUL, weighted, Operations::number(Uid::kScale), add.scores());
  add_key_gradient(graph, add, ds, add.queries(Uid::kQuery), Uid::kKeyGradient);
  add_query_gradient(graph, add, ds);
}

/// For earlier ones cudnn-frontend gives the gradient its lengths as tensors, if 128 does not divide them.
constexpr size_t kOldestRelease = 91600;

}  // namespace

std::string AttentionGraph::text() const {
  std::string text = fmt::format("attention{} {} {}x{} heads={}/{} size={} rows={}/{}",
                                 kind == Kind::backward ? "_backward" : "", to_string(dtype), samples,
                                 positions, heads, kv_heads, size, q_row, kv_row);
  if (causal) text += " causal";
  if (log_sum) text += " log_sum";
  if (deterministic) text += " deterministic";
  return text;
}

std::optional<std::string> note_of_old_release(size_t release) {
  if (release >= kOldestRelease) return std::nullopt;
  return fmt::format(
      "attention runs without tensor cores and may take several times as long: its fused kernels need cuDNN "
      "9.16 or newer, and this is {}.{}; install a newer one, for example with pip install nvidia-cudnn-cu13",
      release / 10000, release / 100 % 100);
}

Descriptor operation_graph(const AttentionGraph& graph, cudnnHandle_t handle) {
  if (const auto note = note_of_old_release(cudnnGetVersion())) throw Error(ExitCode::internal, *note);
  Operations operations(graph);
  if (graph.kind == AttentionGraph::Kind::forward) {
    add_forward(graph, operations);
  } else {
    add_backward(graph, operations);
  }
  return operations.finished(handle);
}

}  // namespace trainer::cuda::cudnn
