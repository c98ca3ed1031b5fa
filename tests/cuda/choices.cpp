// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "core/engine/backend_library.h"
#include "core/graph/ops/attention.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/linear.h"
#include "cpu/backend.h"
#include "tests/cuda/two_backends.h"

namespace trainer {
namespace {

TensorSpec tensor(const Shape& shape, DType dtype) {
  return {.shape = shape, .dtype = dtype};
}

/// Convolutions of a residual network with their gradients, in each type; in low ones also one that measures.
template <class Visit>
void for_each_convolution(const Visit& visit) {
  const Conv2dGeometry geometry{.kernel = {3, 3}, .padding = {1, 1}};
  const Shape x{4, 64, 14, 14}, w{128, 64, 3, 3}, y{4, 128, 14, 14};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Conv2d forward(geometry, true);
    visit({.op = forward,
           .inputs = {tensor(x, dtype), tensor(w, dtype), tensor({128}, dtype)},
           .outputs = {tensor(y, dtype)}});
    const Conv2d measuring(geometry, false, true);
    if (is_low(dtype)) {
      visit({.op = measuring,
             .inputs = {tensor(x, dtype), tensor(w, dtype), TensorSpec{}},
             .outputs = {tensor(y, dtype), tensor({1, 2, 128}, DType::f32)}});
    }
    const Conv2dBackwardData data(geometry, x);
    visit({.op = data, .inputs = {tensor(y, dtype), tensor(w, dtype)}, .outputs = {tensor(x, dtype)}});
    const Conv2dBackwardWeights weights(geometry, w, false);
    visit(
        {.op = weights, .inputs = {tensor(x, dtype), tensor(y, dtype)}, .outputs = {tensor(w, DType::f32)}});
    if (is_low(dtype)) {
      const Conv2dBackwardWeights rounding(geometry, w, false, dtype);
      visit({.op = rounding, .inputs = {tensor(x, dtype), tensor(y, dtype)}, .outputs = {tensor(w, dtype)}});
    }
  }
}

/// Attention of GPT-2 with its gradient, packed.
template <class Visit>
void for_each_attention(const Visit& visit) {
  const AttentionSettings settings{.heads = 12, .kv_heads = 12, .causal = true};
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Attention forward(settings);
    std::vector<TensorSpec> inputs(attention_input::kInputCount);
    inputs[attention_input::kQ] = tensor({4, 1024, 3 * 768}, dtype);
    const std::vector<TensorSpec> outputs = forward.infer(inputs);
    visit({.op = forward, .inputs = inputs, .outputs = outputs});
    inputs.insert(inputs.end(), {outputs[0], outputs[0], outputs[1]});
    const AttentionBackward backward(settings);
    visit({.op = backward, .inputs = inputs, .outputs = backward.infer(inputs)});
  }
}

}  // namespace

TEST_CASE("a GPU's own description leads to the engines and workspaces that the GPU itself gets") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  const auto inspected = nlohmann::json::parse(inspect_backend("cuda"));
  const std::string json = inspected["devices"][0]["properties"].dump();
  const DeviceDescription device = read_device_description(json, "the GPU here");
  const auto described = load_backend("cuda", BackendRequest{.described = &device});
  const auto compare = [&](const OpContext& context) {
    INFO(context.op.name() << " " << to_string(context.inputs[0].dtype));
    const Choice real = gpu->planner->select(context, OpenLayouts(context.inputs.size()));
    const Choice planned = described.planner->select(context, OpenLayouts(context.inputs.size()));
    CHECK(real.algorithm == planned.algorithm);
    CHECK(real.workspace_bytes == planned.workspace_bytes);
    CHECK(real.implementation == planned.implementation);
  };
  for_each_convolution(compare);
  for_each_attention(compare);
}

TEST_CASE("sums of many rows for few features are timed without runtime.autotune too") {
  if (!cuda_or_skip()) return;
  const int64_t rows = 1 << 15;
  const LinearBackwardWeights weights(true);
  const auto context = [&](int64_t count) {
    const std::vector<TensorSpec> inputs{tensor({count, 8}, DType::f32), tensor({count, 16}, DType::f32),
                                         TensorSpec{}};
    return OpContext{.op = weights, .inputs = inputs, .outputs = weights.infer(inputs)};
  };
  const auto choose = [&](Tuning& tuning, int64_t count, bool deterministic) {
    tuning.times_all = false;
    const auto gpu = load_backend("cuda", {.tuning = &tuning, .deterministic = deterministic});
    return gpu.planner->select(context(count), OpenLayouts(3));
  };
  Tuning none, exact;
  const Choice few = choose(none, rows / 2, false), repeatable = choose(exact, rows, true);
  CHECK(none.fastest.empty());
  CHECK(exact.fastest.empty());
  CHECK(repeatable.implementation == few.implementation);
  Tuning tuning;
  const Choice chosen = choose(tuning, rows, false);
  REQUIRE(tuning.fastest.size() == 1);
  const auto [key, fastest] = *tuning.fastest.begin();
  CHECK(key.starts_with(kTimedAlways));
  if (key.find("Stand-in") != std::string::npos) {  // whose times are invented
    CHECK(chosen.implementation == "cublaslt, column_sums");
    CHECK(chosen.algorithm == "a1,0,0,128,2,0,0,0,0");
  }
  CHECK(choose(tuning, rows, false).algorithm == chosen.algorithm);
  CHECK(tuning.fastest == std::map<std::string, std::string>{{key, fastest}});
  tuning.fastest[key] = "an algorithm of an earlier release";
  CHECK(choose(tuning, rows, false).algorithm == chosen.algorithm);

  const auto gpu = load_backend("cuda", {.tuning = &tuning});
  for (const size_t output :
       {size_t{LinearBackwardWeights::kDweight}, size_t{LinearBackwardWeights::kDbias}}) {
    const OneOperation operation{
        .inputs = {{rows, 8}, {rows, 16}}, .emit = [&](Builder& build, const auto& in) {
          return build.emit_all(std::make_shared<LinearBackwardWeights>(true), {in[0], in[1]})[output];
        }};
    CHECK(distance(run_on(gpu, operation, 1, 1), run_on(make_cpu_backend(1), operation, 1, 1)) < 1e-4);
  }
}

TEST_CASE("what is timed once is chosen again without timing, and runs") {
  if (!cuda_or_skip()) return;
  Tuning tuning;
  const auto timing = load_backend("cuda", BackendRequest{.tuning = &tuning});
  const Linear linear(LinearFunction::relu);
  const OpContext product{
      .op = linear,
      .inputs = {tensor({128, 784}, DType::f32), tensor({256, 784}, DType::f32), tensor({256}, DType::f32)},
      .outputs = {tensor({128, 256}, DType::f32)}};
  const Choice first = timing.planner->select(product, OpenLayouts(3));
  for_each_convolution([&](const OpContext& context) {
    static_cast<void>(timing.planner->select(context, OpenLayouts(context.inputs.size())));
  });
  CHECK(tuning.fastest.size() == 14);
  const auto known = tuning.fastest;
  const auto later = load_backend("cuda", BackendRequest{.tuning = &tuning});
  CHECK(later.planner->select(product, OpenLayouts(3)).algorithm == first.algorithm);
  for_each_convolution([&](const OpContext& context) {
    INFO(context.op.name() << " " << to_string(context.inputs[0].dtype));
    CHECK(later.planner->select(context, OpenLayouts(context.inputs.size())).algorithm ==
          timing.planner->select(context, OpenLayouts(context.inputs.size())).algorithm);
  });
  CHECK(tuning.fastest == known);

  const OneOperation operation{.inputs = {{31, 33}, {10, 33}, {10}},
                               .emit = [](Builder& build, const auto& in) {
                                 return build.emit<Linear>({in[0], in[1], in[2]}, LinearFunction::relu);
                               }};
  CHECK(run_on(later, operation, 1, 1).size() == 310);
}

}  // namespace trainer
