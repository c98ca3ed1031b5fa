// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/reshape.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/layers/table.h"

namespace trainer {
namespace {

class FlattenLayer final : public Layer {
 public:
  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape in = context.build.shape(x[0]);
    if (in.size() == 2) return {x[0]};
    return {context.build.emit<Reshape>({x[0]}, Shape{in[0], numel(in) / in[0]})};
  }
};

class ReshapeLayer final : public Layer {
 public:
  void declare_parameters(Fields& fields) override {
    fields.add("shape", &shape_, "dimensions of one sample; one of them may be -1")
        .required()
        .at_least(-1)
        .at_most(kMaxDimension)
        .bare();
  }

  LayerKeys keys_for(const LayerSizes&, const LayerSizes& after) const override {
    return {{"shape", fmt::format("[{}]", fmt::join(after.output.begin() + 1, after.output.end(), ", "))}};
  }

  std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const override {
    const Shape in = context.build.shape(x[0]);
    return {context.build.emit<Reshape>({x[0]}, resolved(in))};
  }

 private:
  Shape resolved(const Shape& in) const {
    const int64_t per_sample = numel(in) / in[0];
    Shape given;
    for (int64_t size : shape_) {
      if (size == 0) fail_at(origin_of("shape"), "dimensions must be at least 1; one of them may be -1");
      if (size > 0) given.push_back(size);
    }
    const int64_t known = numel(given);
    const auto open = std::count(shape_.begin(), shape_.end(), -1);
    if (open > 1 || per_sample % known != 0 || (open == 0 && known != per_sample)) {
      fail_at(origin_of("shape"),
              fmt::format("[{}] does not hold the {} elements of a sample of shape {}",
                          fmt::join(shape_, ", "), per_sample, to_string(Shape(in.begin() + 1, in.end()))));
    }
    Shape out{in[0]};
    for (int64_t size : shape_) out.push_back(size == -1 ? per_sample / known : size);
    return out;
  }

  std::vector<int64_t> shape_;
};

}  // namespace

Registered<Layer> flatten_layer() {
  return {"flatten", "(N, C, H, W) to (N, C * H * W)", [] { return std::make_unique<FlattenLayer>(); }};
}

Registered<Layer> reshape_layer() {
  return {"reshape", "changes the shape, keeps the elements",
          [] { return std::make_unique<ReshapeLayer>(); }};
}

}  // namespace trainer
