// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_standin/dnn_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/cuda_standin/refusals.h"

namespace trainer::standin {
namespace {

[[noreturn]] void unknown(const std::string& what) {
  throw Refusal{CUDNN_STATUS_NOT_SUPPORTED, "the stand-in does not know " + what};
}

Sizes sizes_of(const Object& tensor, cudnnBackendAttributeName_t name) {
  const auto values = tensor.values<int64_t>(name);
  if (values.size() != 4) unknown("a tensor that has not four dimensions");
  return {values[0], values[1], values[2], values[3]};
}

View view_of(const Object& tensor) {
  View view;
  view.sizes = sizes_of(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS);
  view.strides = sizes_of(tensor, CUDNN_ATTR_TENSOR_STRIDES);
  view.type = tensor.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  view.uid = tensor.value<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  view.alignment = tensor.value<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  view.is_virtual = tensor.value<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  view.by_value = tensor.value<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  return view;
}

/// The values of these attributes, with the result as the last.
void read_tensors(const Object& operation, std::initializer_list<cudnnBackendAttributeName_t> from,
                  cudnnBackendAttributeName_t to, StepOfGraph& step) {
  for (const cudnnBackendAttributeName_t name : from) {
    if (operation.has(name)) step.from.push_back(view_of(operation.child(name)));
  }
  step.to = view_of(operation.child(to));
}

void read_pointwise(const Object& operation, StepOfGraph& step) {
  read_tensors(operation,
               {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
               CUDNN_ATTR_OPERATION_POINTWISE_YDESC, step);
  const Object& how = operation.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  step.mode = how.value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  if (how.has(CUDNN_ATTR_POINTWISE_AXIS)) step.axis = how.value<int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
  size_t expected = 2;
  switch (step.mode) {
    case CUDNN_POINTWISE_BINARY_SELECT:
      expected = 3;
      break;
    case CUDNN_POINTWISE_EXP:
    case CUDNN_POINTWISE_LOG:
    case CUDNN_POINTWISE_IDENTITY:
    case CUDNN_POINTWISE_GEN_INDEX:
      expected = 1;
      break;
    case CUDNN_POINTWISE_ADD:
    case CUDNN_POINTWISE_SUB:
    case CUDNN_POINTWISE_MUL:
    case CUDNN_POINTWISE_DIV:
    case CUDNN_POINTWISE_CMP_GE:
      break;
    default:
      unknown("this element-wise function");
  }
  if (step.from.size() != expected) unknown("an element-wise function of so many tensors");
}

/// Rows of a by columns of b; a head of b may serve several of a.
void expect_product(const StepOfGraph& step) {
  const Sizes &a = step.from.at(0).sizes, &b = step.from.at(1).sizes, &c = step.to.sizes;
  if (a[0] != b[0] || a[1] % b[1] != 0 || a[3] != b[2] || c != Sizes{a[0], a[1], a[2], b[3]})
    throw Refusal{CUDNN_STATUS_BAD_PARAM, "a product's shapes do not fit together"};
}

/// Each dimension is a multiple of the result's.
void expect_reduction(const StepOfGraph& step) {
  for (size_t i = 0; i < 4; ++i) {
    if (step.from.at(0).sizes[i] % step.to.sizes[i] != 0)
      throw Refusal{CUDNN_STATUS_BAD_PARAM, "a reduction's shapes do not fit together"};
  }
}

StepOfGraph step_of(const Object& operation) {
  StepOfGraph step{.type = operation.type};
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      read_tensors(operation, {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC},
                   CUDNN_ATTR_OPERATION_MATMUL_CDESC, step);
      expect_product(step);
      break;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      read_pointwise(operation, step);
      break;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      read_tensors(operation, {CUDNN_ATTR_OPERATION_REDUCTION_XDESC}, CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
                   step);
      step.reduction = operation.child(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
                           .value<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
      expect_reduction(step);
      break;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      read_tensors(operation, {CUDNN_ATTR_OPERATION_RESHAPE_XDESC}, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, step);
      if (step.from.at(0).span() != step.to.span())
        throw Refusal{CUDNN_STATUS_BAD_PARAM, "a reshape changes how far a tensor reaches"};
      break;
    default:
      unknown("this operation");
  }
  return step;
}

template <class Visit>
void for_each_tensor(const StepsOfGraph& steps, Visit visit) {
  for (const StepOfGraph& step : steps) {
    for (const View& view : step.from) visit(view);
    visit(step.to);
  }
}

void* address_of(const View& view, const std::map<int64_t, void*>& tensors) {
  const auto found = tensors.find(view.uid);
  if (found == tensors.end() || found->second == nullptr)
    throw Refusal{CUDNN_STATUS_BAD_PARAM, fmt::format("no address of tensor {}", view.uid)};
  return found->second;
}

}  // namespace

int64_t View::offset(const Sizes& at) const {
  int64_t sum = 0;
  for (size_t i = 0; i < 4; ++i) sum += at[i] * strides[i];
  return sum;
}

int64_t View::span() const {
  return offset({sizes[0] - 1, sizes[1] - 1, sizes[2] - 1, sizes[3] - 1}) + 1;
}

bool has_steps(const Object& operations) {
  const std::vector<ObjectPointer>& all = operations.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).objects;
  return std::ranges::any_of(
      all, [](const auto& one) { return one->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR; });
}

StepsOfGraph steps_of(const Object& operations) {
  StepsOfGraph steps;
  for (const ObjectPointer& operation : operations.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).objects)
    steps.push_back(step_of(*operation));
  return steps;
}

std::vector<Range> ranges_of(const StepsOfGraph& steps, const std::map<int64_t, void*>& tensors) {
  std::vector<Range> ranges;
  for_each_tensor(steps, [&](const View& view) {
    if (view.is_virtual || view.by_value) return;
    void* address = address_of(view, tensors);
    if (reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(view.alignment) != 0) {
      refuse(fmt::format("cuDNN: tensor {} is aligned to less than was promised", view.uid));
      throw Refusal{CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, last_refusal()};
    }
    ranges.push_back({address, static_cast<size_t>(view.span()) * (view.type == CUDNN_DATA_FLOAT ? 4 : 2)});
  });
  return ranges;
}

std::map<int64_t, float> numbers_of(const StepsOfGraph& steps, const std::map<int64_t, void*>& tensors) {
  std::map<int64_t, float> numbers;
  for_each_tensor(steps, [&](const View& view) {
    if (view.by_value) numbers[view.uid] = *static_cast<const float*>(address_of(view, tensors));
  });
  return numbers;
}

}  // namespace trainer::standin
