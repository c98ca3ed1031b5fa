// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/tensor_cores.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/graph/operation.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/linear.h"

namespace trainer {
namespace {

/// Bytes that one load of a tensor core's operands takes; dimensions are padded to it.
constexpr int64_t kBytes = 16;

/// Pads one dimension; returns the factor by which the products grow, and reports it.
double pad(int64_t size, int64_t multiple, const char* what, std::string& advice) {
  const int64_t padded = (size + multiple - 1) / multiple * multiple;
  if (padded != size)
    advice += fmt::format("{}{} {} are computed as {}", advice.empty() ? "" : ", ", size, what, padded);
  return static_cast<double>(padded) / static_cast<double>(size);
}

ProductOnTensorCores describe(const Job& job, const PlannedNode& planned, bool is_convolution) {
  const Node& node = planned.node;
  const size_t weight = is_convolution ? size_t{Conv2d::kWeight} : size_t{Linear::kWeight};
  const TensorSpec& w = job.plan.tensors[static_cast<size_t>(node.inputs[weight])].spec;
  const int64_t multiple = kBytes / bytes_per_element(w.dtype);
  ProductOnTensorCores product{.name = node.origin.path,
                               .operation = std::string(node.op->name()),
                               .runs = planned.choice.tensor_cores};
  if (!product.runs) return product;
  const double in = pad(w.shape[1], multiple, is_convolution ? "input channels" : "input features",
                        product.advice),
               out = pad(w.shape[0], multiple, is_convolution ? "output channels" : "output features",
                         product.advice);
  product.padding = 1 - 1 / (in * out);
  return product;
}

}  // namespace

std::vector<ProductOnTensorCores> products_on_tensor_cores(const Job& job) {
  std::vector<ProductOnTensorCores> products;
  for (const PlannedNode& planned : job.plan.entries.front().nodes) {
    const bool is_convolution = planned.node.op->name() == "conv2d";
    if (!planned.runs || planned.node.phase != Phase::forward || planned.node.again ||
        (!is_convolution && planned.node.op->name() != "linear"))
      continue;
    products.push_back(describe(job, planned, is_convolution));
  }
  return products;
}

std::string tensor_core_text(const Job& job) {
  const std::vector<ProductOnTensorCores> products = products_on_tensor_cores(job);
  if (products.empty()) return "";
  const auto run = std::ranges::count_if(products, &ProductOnTensorCores::runs);
  std::string text =
      fmt::format("\ntensor cores compute {} of {} forward products with weights", run, products.size());
  text += run == 0 ? ": training.precision=amp_bf16 or tf32 would change that\n"
                   : " (cuDNN's word for convolutions, a rule for matrix products)\n";
  for (const ProductOnTensorCores& product : products) {
    if (!product.advice.empty())
      text += fmt::format("  {}: {}, so {:.0f} % is padding\n", product.name, product.advice,
                          100 * product.padding);
    if (run > 0 && !product.runs) text += fmt::format("  {}: not on tensor cores\n", product.name);
  }
  return text;
}

Json tensor_core_json(const Job& job) {
  Json all = Json::array();
  for (const ProductOnTensorCores& product : products_on_tensor_cores(job)) {
    all.push_back({{"origin", product.name},
                   {"op", product.operation},
                   {"runs", product.runs},
                   {"padding", product.padding},
                   {"advice", product.advice}});
  }
  return all;
}

}  // namespace trainer
