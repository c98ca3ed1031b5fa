// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN, by our own kernels, and by whichever was the fastest.
#include "core/graph/ops/attention.h"

#include "tests/catch.h"

#include "core/engine/backend_library.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/two_backends.h"
#include "tests/ops/attention.h"

namespace trainer {
namespace {

/// Cases that cuDNN supports in two bytes: causal and not, packed and separate, grouped keys, uneven lengths.
const std::vector<AttentionCase> kFusedCases = {
    {.samples = 2, .queries = 64, .heads = 2, .size = 64, .packed = true},
    {.samples = 2, .queries = 77, .heads = 2, .size = 64, .causal = true, .packed = true},
    {.queries = 129, .heads = 1, .size = 32, .causal = true},
    {.samples = 3, .queries = 33, .heads = 4, .kv_heads = 2, .size = 8, .packed = true},
    {.samples = 2, .queries = 31, .heads = 4, .kv_heads = 1, .size = 72, .causal = true},
    {.queries = 20, .heads = 2, .size = 128, .causal = true, .packed = true, .scale = 0.3},
    {.queries = 2, .heads = 1, .size = 16},
    // dq and dk are not needed: our kernels compute the gradient from cuDNN's outputs.
    {.samples = 2, .queries = 40, .heads = 2, .size = 16, .causal = true, .constant = true},
};

void check_cases(const Backend& gpu) {
  for (const AttentionCase& one : kFusedCases) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      INFO(to_string(one) << " in " << to_string(dtype));
      check_narrow(
          gpu, [&](Sketch& sketch) { draft_attention(sketch, one); }, dtype, 2, narrow_tolerances(dtype));
    }
  }
}

OpContext context_of(const Attention& op, const AttentionCase& one, DType dtype) {
  const int64_t heads = one.settings().heads + 2 * one.settings().kv_heads;
  OpContext context{.op = op, .inputs = std::vector<TensorSpec>(attention_input::kInputCount), .outputs = {}};
  context.inputs[attention_input::kQ] = {{one.samples, one.queries, heads * one.size}, dtype};
  context.outputs = op.infer(context.inputs);
  return context;
}

std::string implementation(const Backend& gpu, DType dtype) {
  const Attention op(kFusedCases[0].settings());
  return gpu.planner->select(context_of(op, kFusedCases[0], dtype), OpenLayouts(attention_input::kInputCount))
      .implementation;
}

/// Our own kernels for all that was timed of an operation; returns their number.
size_t take_own(Tuning& tuning, const std::string& operation) {
  size_t timed = 0;
  for (auto& [key, fastest] : tuning.fastest) {
    if (key.find(": " + operation + " ") == std::string::npos) continue;
    fastest = "tiles";
    ++timed;
  }
  return timed;
}

}  // namespace

TEST_CASE("attention by cuDNN and its gradient agree with the reference") {
  const auto gpu = cuda_or_skip();
  if (!gpu) return;
  CHECK(implementation(*gpu, DType::f16) == "cudnn");
  CHECK(implementation(*gpu, DType::f32) == "tiles");
  check_cases(*gpu);
}

TEST_CASE("attention by cuDNN whose gradient repeats its bits agrees with the reference") {
  if (!cuda_or_skip()) return;
  check_cases(load_backend("cuda", BackendRequest{.deterministic = true}));
}

TEST_CASE(
    "attention by the fastest kernels, and by our own where a tuning names them, agrees with the reference") {
  if (!cuda_or_skip()) return;
  Tuning tuning;
  check_cases(load_backend("cuda", BackendRequest{.tuning = &tuning}));
  CHECK(take_own(tuning, "attention") == 2 * kFusedCases.size());
  const auto own_forward = load_backend("cuda", BackendRequest{.tuning = &tuning});
  CHECK(implementation(own_forward, DType::f16) == "tiles");
  check_cases(own_forward);
  CHECK(take_own(tuning, "attention_backward") == 2 * (kFusedCases.size() - 1));
  check_cases(load_backend("cuda", BackendRequest{.tuning = &tuning}));
}

}  // namespace trainer
