// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/base/error.h"
#include "core/engine/backend_library.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/for_each.h"
#include "core/graph/ops/linear.h"
#include "tests/cudnn/devices.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

TensorSpec tensor(const Shape& shape, DType dtype = DType::f32) {
  return {.shape = shape, .dtype = dtype};
}

/// The planner for a GPU that only has its shipped description.
std::unique_ptr<Planner> described(const std::string& name, BackendRequest request = {}) {
  const DeviceDescription device = shipped_device(name);
  request.described = &device;
  return load_backend("cuda", request).planner;
}

/// A 3x3 convolution with bias and relu, large enough for tensor cores.
struct Convolution {
  Conv2d op{Conv2dGeometry{.kernel = {3, 3}, .padding = {1, 1}}, true};
  OpContext context(DType dtype) const {
    return {
        .op = op,
        .inputs = {tensor({64, 128, 14, 14}, dtype), tensor({256, 128, 3, 3}, dtype), tensor({256}, dtype)},
        .outputs = {tensor({64, 256, 14, 14}, dtype)}};
  }
};

}  // namespace

TEST_CASE("images and weights of a convolution lie channels last") {
  const auto gpu = described("h200");
  const Convolution convolution;
  const Choice choice = gpu->select(convolution.context(DType::f16), OpenLayouts(3));
  CHECK(to_string(choice.inputs[0]) == "acdb");
  CHECK(to_string(choice.inputs[1]) == "acdb");
  CHECK(choice.inputs[2].row_major());
  CHECK(to_string(choice.outputs[0]) == "acdb");
  CHECK(choice.implementation == "cudnn");
}

TEST_CASE("the gradient of the first weights copies images of three channels, and not those of four in f16") {
  const auto gpu = described("h200");
  const auto workspace = [&](int64_t channels) {
    const Conv2dBackwardWeights op(Conv2dGeometry{.kernel = {7, 7}, .stride = {2, 2}, .padding = {3, 3}},
                                   {64, channels, 7, 7}, false);
    return gpu->untimed_workspace(
        {.op = op,
         .inputs = {tensor({256, channels, 224, 224}, DType::f16), tensor({256, 64, 112, 112}, DType::f16)},
         .outputs = {tensor({64, channels, 7, 7})}});
  };
  constexpr int64_t kImages = int64_t{256} * 224 * 224 * 2;  // bytes of one channel
  CHECK(workspace(3).value() >= 3 * kImages);
  CHECK(workspace(4).value() < kImages);
  const Linear linear;
  CHECK(!gpu->untimed_workspace({.op = linear, .inputs = {}, .outputs = {}}));
}

TEST_CASE("fp32 keeps all its bits unless tf32 is asked for") {
  const Convolution convolution;
  const Choice exact = described("h200")->select(convolution.context(DType::f32), OpenLayouts(3));
  const Choice rounded =
      described("h200", {.tf32 = true})->select(convolution.context(DType::f32), OpenLayouts(3));
  CHECK(exact.algorithm != rounded.algorithm);
  const Choice half = described("h200")->select(convolution.context(DType::f16), OpenLayouts(3));
  CHECK(half.algorithm ==
        described("h200", {.tf32 = true})->select(convolution.context(DType::f16), OpenLayouts(3)).algorithm);
}

TEST_CASE("a deterministic run takes no engine whose results vary") {
  const Conv2dBackwardWeights op(Conv2dGeometry{.kernel = {7, 7}, .stride = {2, 2}, .padding = {3, 3}},
                                 {64, 3, 7, 7}, false);
  const OpContext context{.op = op,
                          .inputs = {tensor({64, 3, 224, 224}), tensor({64, 64, 112, 112})},
                          .outputs = {tensor({64, 3, 7, 7})}};
  const Choice fast = described("h200")->select(context, OpenLayouts(2));
  const Choice same_bits = described("h200", {.deterministic = true})->select(context, OpenLayouts(2));
  CHECK(fast.algorithm != same_bits.algorithm);
}

TEST_CASE("where only a fallback runs convolution, bias and relu together, an own kernel does the last two") {
  const auto gpu = described("h200");
  const Conv2d op(Conv2dGeometry{.kernel = {3, 3}, .padding = {1, 1}, .groups = 96}, true);
  const OpContext context{
      .op = op,
      .inputs = {tensor({64, 96, 56, 56}, DType::bf16), tensor({96, 1, 3, 3}, DType::bf16), tensor({96})},
      .outputs = {tensor({64, 96, 56, 56}, DType::bf16)}};
  REQUIRE(!gpu->why_not(context));
  const Choice choice = gpu->select(context, OpenLayouts(3));
  CHECK(choice.implementation == "cudnn, add_bias");
  CHECK(choice.inputs[1].row_major());  // one channel a group: channels last is the same
}

TEST_CASE("the gradient of a convolution's bias is an own kernel's, in the workspace of the weights' one") {
  const auto gpu = described("h200");
  const Conv2dBackwardWeights op(Conv2dGeometry{.kernel = {3, 3}, .padding = {1, 1}}, {32, 16, 3, 3}, true);
  OpContext context{.op = op,
                    .inputs = {tensor({8, 16, 12, 12}), tensor({8, 32, 12, 12})},
                    .outputs = {tensor({32, 16, 3, 3}), tensor({32})}};
  const Choice both = gpu->select(context, OpenLayouts(2));
  CHECK(both.implementation == "cudnn, column_sums");
  context.outputs[0] = {};
  const Choice alone = gpu->select(context, OpenLayouts(2));
  CHECK(alone.implementation == "column_sums");
  // The kernel chooses the number of parts of the rows; each has an f32 for each of the 32 channels.
  CHECK(alone.workspace_bytes > 0);
  CHECK(alone.workspace_bytes % (32 * 4) == 0);
  CHECK(both.workspace_bytes >= alone.workspace_bytes);
}

TEST_CASE("the gradient of f16 weights is cast from cuDNN's workspace, since no engine writes f32") {
  const auto gpu = described(GENERATE("a100", "h200", "b200"));
  for (const DType low : {DType::f16, DType::bf16}) {
    const Conv2dBackwardWeights op(Conv2dGeometry{.kernel = {3, 3}, .padding = {1, 1}}, {96, 64, 3, 3}, true);
    OpContext context{.op = op,
                      .inputs = {tensor({8, 64, 12, 12}, low), tensor({8, 96, 12, 12}, low)},
                      .outputs = {tensor({96, 64, 3, 3}), tensor({96})}};
    REQUIRE(!gpu->why_not(context));
    const Choice both = gpu->select(context, OpenLayouts(2));
    CHECK(both.implementation == "cudnn, cast, column_sums");
    CHECK(to_string(both.outputs[0]) == "acdb");
    context.outputs[1] = {};
    const Choice alone = gpu->select(context, OpenLayouts(2));
    CHECK(alone.implementation == "cudnn, cast");
    CHECK(alone.workspace_bytes >= 96 * 64 * 3 * 3 * 2);
    CHECK(alone.algorithm == both.algorithm);
  }
}

TEST_CASE("bf16 and tf32 need a GPU that has them, and tf32 one that was opened for it") {
  const auto gpu = described("a100");
  for (const Precision precision : {Precision::fp32, Precision::amp_fp16, Precision::amp_bf16})
    CHECK(!gpu->set_precision(precision));
  CHECK_THAT(gpu->set_precision(Precision::tf32).value_or(""), ContainsSubstring("was opened without tf32"));
  const auto rounding = described("a100", {.tf32 = true});
  CHECK(!rounding->set_precision(Precision::tf32));
  CHECK_THAT(rounding->set_precision(Precision::fp32).value_or(""), ContainsSubstring("was opened for tf32"));

  DeviceDescription turing = shipped_device("a100");
  turing.compute_capability = 75;
  turing.name = "a Turing";
  const auto old = load_backend("cuda", BackendRequest{.described = &turing, .tf32 = true}).planner;
  CHECK(old->set_precision(Precision::amp_bf16) ==
        "a Turing has compute capability 7.5, and bf16 begins with 8.0; write amp_fp16 or fp32");
  CHECK_THAT(old->set_precision(Precision::tf32).value_or(""), ContainsSubstring("tf32 begins with 8.0"));
}

TEST_CASE("types that cuDNN and cuBLASLt do not take together are refused with the reason") {
  const auto gpu = described("h200");
  const Convolution convolution;
  const OpContext mixed = convolution.context(DType::f16);
  const OpContext context{.op = convolution.op,
                          .inputs = {mixed.inputs[0], tensor({256, 128, 3, 3}), mixed.inputs[2]},
                          .outputs = mixed.outputs};
  CHECK_THAT(gpu->why_not(context).value_or(""),
             ContainsSubstring("one type for all tensors, got f16, f32 and f16"));
  const Linear linear;
  const OpContext product{.op = linear,
                          .inputs = {tensor({8, 16}, DType::bf16), tensor({4, 16}), TensorSpec{}},
                          .outputs = {tensor({8, 4}, DType::bf16)}};
  CHECK_THAT(gpu->why_not(product).value_or(""), ContainsSubstring("factors of one type, got bf16 and f32"));
}

TEST_CASE(
    "sums of many tensors are one kernel, but not sums with a relu, which that kernel would leave out") {
  const auto gpu = described("h200");
  const auto refusal = [&](const Binary& sum) {
    const auto one = std::make_shared<Binary>(sum);
    const ForEach both({one, one}, Binary::kInputs, 1);
    const std::vector<TensorSpec> inputs(2 * Binary::kInputs, tensor({8, 8})), outputs(2, tensor({8, 8}));
    return gpu->why_not({.op = both, .inputs = inputs, .outputs = outputs}).value_or("");
  };
  CHECK(refusal(Binary(Binary::Kind::add)).empty());
  CHECK(refusal(Binary(Binary::Kind::add, true, 6)) == "no GPU kernel does add for many tensors");
}

TEST_CASE("a matrix product on a described GPU is planned with an upper bound, and the plan says so") {
  const auto gpu = described("a100");
  const Linear linear, with_relu(LinearFunction::relu);
  const auto context = [](const Linear& op) {
    return OpContext{
        .op = op, .inputs = {tensor({8, 16}), tensor({4, 16}), tensor({4})}, .outputs = {tensor({8, 4})}};
  };
  const OpContext product = context(linear);
  REQUIRE(!gpu->why_not(product));
  const Choice choice = gpu->select(product, OpenLayouts(3));
  CHECK(choice.implementation == "cublaslt");
  CHECK(gpu->select(context(with_relu), OpenLayouts(3)).implementation ==
        "cublaslt, relu");  // ours keeps NaN
  CHECK(choice.workspace_bytes == int64_t{32} << 20);
  CHECK(choice.workspace_is_bound);
  REQUIRE(gpu->remarks().size() >= 2);
  CHECK_THAT(gpu->remarks()[0], ContainsSubstring("the description of a GPU: cuDNN 9.") &&
                                    ContainsSubstring("NVIDIA A100-SXM4-80GB"));
  CHECK_THAT(gpu->remarks()[1], ContainsSubstring("upper bound, 32.0 MiB each"));
}

TEST_CASE("a described GPU has its memory but for what the libraries take, and cannot be run on") {
  const auto gpu = described("a100");
  CHECK(gpu->memory_bytes() == 85100068864 - (int64_t{1} << 30));
  CHECK(gpu->is_async());
  const DeviceDescription device = shipped_device("a100");
  CHECK(load_backend("cuda", BackendRequest{.described = &device}).device == nullptr);
}

TEST_CASE("what cuDNN has no engine for is refused with cuDNN's release, the GPU and the graph") {
  DeviceDescription turing = shipped_device("a100");
  const size_t at = turing.properties.find("\"deviceVer\":800");
  REQUIRE(at != std::string::npos);
  turing.properties.replace(at, 15, "\"deviceVer\":750");
  turing.name = "a Turing";
  const auto gpu = load_backend("cuda", BackendRequest{.described = &turing}).planner;
  const Convolution convolution;
  const std::string reason = gpu->why_not(convolution.context(DType::bf16)).value_or("");
  CHECK_THAT(reason, ContainsSubstring("cuDNN 9.") &&
                         ContainsSubstring("a Turing has no engine for forward bf16 x=64x128x14x14"));
}

TEST_CASE("a description that cuDNN does not take refuses every convolution, with that reason") {
  DeviceDescription broken = shipped_device("h200");
  broken.properties = "{}";
  const auto gpu = load_backend("cuda", BackendRequest{.described = &broken}).planner;
  const Convolution convolution;
  for (int i = 0; i < 2; ++i) {
    CHECK_THAT(gpu->why_not(convolution.context(DType::f16)).value_or(""),
               ContainsSubstring("cuDNN does not take the device's description"));
  }
}

}  // namespace trainer
