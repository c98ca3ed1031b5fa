// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN's fused kernels: what it answers about described GPUs, and what is left to our own
// kernels.
#include "core/graph/ops/attention.h"

#include <set>
#include "tests/catch.h"

#include "core/base/precision.h"
#include "core/engine/backend_library.h"
#include "core/recipe/job.h"
#include "cuda/cudnn/attention_graph.h"
#include "cuda/cudnn/oracle.h"
#include "tests/cudnn/devices.h"

namespace trainer {
namespace {

namespace in = attention_input;
using Catch::Matchers::ContainsSubstring;
using cuda::cudnn::Answer;
using cuda::cudnn::AttentionGraph;
using cuda::cudnn::Oracle;

/// Attention of `samples` times `positions`, packed or not, with its gradient.
struct Use {
  std::string name;
  AttentionSettings settings;
  int64_t samples, positions, size;
  bool packed = true;

  int64_t q_row() const { return (settings.heads + (packed ? 2 * settings.kv_heads : 0)) * size; }
  int64_t kv_row() const { return packed ? q_row() : settings.kv_heads * size; }
};

std::vector<Use> uses() {
  return {{"GPT-2", {.heads = 12, .kv_heads = 12}, 16, 1024, 64},
          {"Llama", {.heads = 32, .kv_heads = 8}, 2, 2048, 128, false},
          {"grouped keys, packed", {.heads = 8, .kv_heads = 2}, 4, 256, 64},
          {"ViT", {.heads = 12, .kv_heads = 12}, 64, 197, 64},
          {"an odd length", {.heads = 4, .kv_heads = 4}, 2, 77, 64},
          {"small heads", {.heads = 4, .kv_heads = 2}, 2, 77, 8},
          {"heads of 72", {.heads = 4, .kv_heads = 4}, 3, 100, 72, false}};
}

AttentionGraph graph_of(const Use& use, DType dtype, bool causal, AttentionGraph::Kind kind) {
  return {.kind = kind,
          .dtype = dtype,
          .samples = use.samples,
          .positions = use.positions,
          .heads = use.settings.heads,
          .kv_heads = use.settings.kv_heads,
          .size = use.size,
          .q_row = use.q_row(),
          .kv_row = use.kv_row(),
          .causal = causal,
          .log_sum = kind == AttentionGraph::Kind::forward};
}

/// A planner's choices for the use and for its gradient.
class Chosen {
 public:
  Chosen(const std::string& device, bool deterministic = false) : description_(shipped_device(device)) {
    gpu_ = load_backend("cuda", BackendRequest{.described = &description_, .deterministic = deterministic});
  }

  Choice forward(const Use& use, DType dtype, const std::vector<size_t>& given = {}) const {
    const Attention op(use.settings);
    return choice(op, inputs_of(use, dtype, given));
  }
  Choice backward(const Use& use, DType dtype, const std::vector<size_t>& unwanted = {}) const {
    const Attention op(use.settings);
    std::vector<TensorSpec> inputs = inputs_of(use, dtype, {});
    const std::vector<TensorSpec> made = op.infer(inputs);
    inputs.insert(inputs.end(), {made[0], made[0], made[1]});
    return choice(AttentionBackward(use.settings), inputs, unwanted);
  }

 private:
  static std::vector<TensorSpec> inputs_of(const Use& use, DType dtype, const std::vector<size_t>& given) {
    std::vector<TensorSpec> inputs(in::kInputCount);
    inputs[in::kQ] = {{use.samples, use.positions, use.q_row()}, dtype};
    if (!use.packed) inputs[in::kK] = inputs[in::kV] = {{use.samples, use.positions, use.kv_row()}, dtype};
    if (use.settings.dropout) {
      inputs[in::kSample] = {{use.samples}, DType::i32};
      inputs[in::kStep] = {{1}, DType::i32};
    }
    for (const size_t i : given)
      inputs[i] = {i == in::kStart ? Shape{use.samples, use.positions} : Shape{1}, DType::i32};
    return inputs;
  }
  Choice choice(const Operation& op, const std::vector<TensorSpec>& inputs,
                const std::vector<size_t>& unwanted = {}) const {
    OpContext context{.op = op, .inputs = inputs, .outputs = op.infer(inputs)};
    for (const size_t i : unwanted) context.outputs[i] = {};
    REQUIRE(!gpu_.planner->why_not(context));
    return gpu_.planner->select(context, OpenLayouts(inputs.size()));
  }

  DeviceDescription description_;
  Backend gpu_;
};

Use causal(Use use) {
  use.settings.causal = true;
  return use;
}

}  // namespace

TEST_CASE("cuDNN has fused kernels for attention and its gradient on A100, H200 and B200") {
  Oracle oracle(shipped_device(GENERATE("a100", "h200", "b200")).properties);
  for (const Use& use : uses()) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      for (const bool is_causal : {false, true}) {
        for (const auto kind : {AttentionGraph::Kind::forward, AttentionGraph::Kind::backward}) {
          AttentionGraph graph = graph_of(use, dtype, is_causal, kind);
          // Evaluation does not need the logarithms; a deterministic run keeps scores.
          for (const bool other : {false, true}) {
            graph.log_sum = !other && kind == AttentionGraph::Kind::forward;
            graph.deterministic = other && kind == AttentionGraph::Kind::backward;
            INFO(use.name << ": " << graph.text());
            const Answer answer = oracle.ask(graph);
            CHECK(answer.refusal.empty());
            REQUIRE(!answer.choices.empty());
            CHECK(!answer.choices[0].fallback);
          }
        }
      }
    }
  }
}

TEST_CASE("a cuDNN that is too old for fused attention is named, with the remedy") {
  CHECK(!cuda::cudnn::note_of_old_release(91600));
  CHECK(!cuda::cudnn::note_of_old_release(100000));
  const auto note = cuda::cudnn::note_of_old_release(91099);
  REQUIRE(note);
  CHECK_THAT(*note, ContainsSubstring("without tensor cores") &&
                        ContainsSubstring("need cuDNN 9.16 or newer, and this is 9.10;") &&
                        ContainsSubstring("pip install nvidia-cudnn-cu13"));
  CHECK(!cuda::cudnn::note_of_old_release(cudnnGetVersion()));
}

TEST_CASE("cuDNN does attention in f16 and bf16, and its gradient, alone") {
  const Chosen chosen(GENERATE("a100", "h200", "b200"));
  for (const Use& use : uses()) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      INFO(use.name << " in " << to_string(dtype));
      for (const Use& one : {use, causal(use)}) {
        const Choice forward = chosen.forward(one, dtype), backward = chosen.backward(one, dtype);
        CHECK(forward.implementation == "cudnn");
        CHECK(backward.implementation == "cudnn");
        CHECK(forward.algorithm.starts_with("e"));
        CHECK(backward.algorithm.starts_with("e"));
        // dy . y of each row, and the gradient of queries in f32.
        const int64_t rows = use.samples * use.settings.heads * use.positions;
        CHECK(backward.workspace_bytes >= rows * 4 * (1 + use.size));
      }
    }
  }
}

TEST_CASE("the gradient repeats its bits where cuDNN may keep all scores, or by our own kernels") {
  const Use gpt2 = causal(uses()[0]);
  const int64_t scores = gpt2.samples * gpt2.settings.heads * gpt2.positions * gpt2.positions * 2;
  for (const char* device : {"a100", "h200"}) {
    INFO(device);
    const Choice choice = Chosen(device, true).backward(gpt2, DType::bf16);
    CHECK(choice.implementation == "cudnn");
    CHECK(choice.workspace_bytes >= scores);
    Use longer = gpt2;
    longer.positions = 4096;  // its scores take more than a GiB
    CHECK(Chosen(device, true).backward(longer, DType::bf16).implementation == "tiles");
    CHECK(Chosen(device, true).forward(longer, DType::bf16).implementation == "cudnn");
  }
  const Chosen b200("b200", true);
  CHECK(b200.forward(gpt2, DType::bf16).implementation == "cudnn");
  CHECK(b200.backward(gpt2, DType::bf16).implementation == "tiles");
}

TEST_CASE("our own kernels do the attention that cuDNN does not do, or not as we do") {
  const Chosen chosen("h200");
  const Use plain = causal(uses()[4]);
  const auto forward = [&](const Use& use, DType dtype = DType::bf16, std::vector<size_t> given = {}) {
    return chosen.forward(use, dtype, given).implementation;
  };
  CHECK(forward(plain) == "cudnn");
  CHECK(forward(plain, DType::f32) == "tiles");
  CHECK(forward(plain, DType::bf16, {in::kStart}) == "tiles");
  Use cached = plain;
  cached.packed = false;
  CHECK(forward(cached, DType::bf16, {in::kFirstPosition}) == "tiles");
  std::vector<Use> others(6, plain);
  others[0].settings.dropout = DropoutSettings{.p = 0.1};
  others[1].settings.window = 16;
  others[2].size = 12;
  others[3].size = 136;
  others[4].positions = 1;
  others[5].size = 1;
  for (const Use& other : others) CHECK(forward(other) == "tiles");
  for (const Use& other : others) CHECK(chosen.backward(other, DType::f16).implementation == "tiles");
  Use apart = plain;
  apart.packed = false;
  CHECK(chosen.backward(apart, DType::f16).implementation == "cudnn");
  CHECK(chosen.backward(apart, DType::f16, {1}).implementation == "tiles");  // dk is not needed
}

TEST_CASE("a GPU without engines for attention is told as that, and our own kernels do it") {
  DeviceDescription turing = shipped_device("a100");
  const size_t at = turing.properties.find("\"deviceVer\":800");
  REQUIRE(at != std::string::npos);
  turing.properties.replace(at, 15, "\"deviceVer\":750");
  Oracle oracle(turing.properties);
  const auto kind = AttentionGraph::Kind::backward;
  CHECK(oracle.ask(graph_of(uses()[0], DType::bf16, true, kind)).choices.empty());
}

TEST_CASE("graphs of attention that differ in anything have different texts") {
  const AttentionGraph graph = graph_of(uses()[0], DType::f16, false, AttentionGraph::Kind::forward);
  std::vector<AttentionGraph> others(11, graph);
  others[0].kind = AttentionGraph::Kind::backward;
  others[1].dtype = DType::bf16;
  others[2].samples = 1;
  others[3].positions = 9;
  others[4].heads = 24;
  others[5].kv_heads = 3;
  others[6].size = 8;
  others[7].q_row = 768;
  others[8].causal = true;
  others[9].log_sum = false;
  others[10].deterministic = true;
  std::set<std::string> texts{graph.text()};
  for (const AttentionGraph& other : others) texts.insert(other.text());
  CHECK(texts.size() == 12);
  CHECK(graph.text() == "attention f16 16x1024 heads=12/12 size=64 rows=2304/2304 log_sum");
}

TEST_CASE("GPT-2 in bf16 has cuDNN's attention in each layer, forward and backward") {
  const DeviceDescription device = shipped_device(GENERATE("a100", "h200", "b200"));
  const auto gpu = load_backend("cuda", BackendRequest{.described = &device}).planner;
  REQUIRE(!gpu->set_precision(Precision::amp_bf16));
  const auto recipe = Recipe::load(std::string(TRAINER_SOURCE_DIR) + "/configs/gpt2_tokens.yaml",
                                   {"training.precision=amp_bf16"});
  const Job job = make_job(recipe, *gpu);
  int found = 0;
  for (const PlannedEntry& entry : job.plan.entries) {
    for (const PlannedNode& planned : entry.nodes) {
      if (!planned.node.op->name().starts_with("attention")) continue;
      INFO(entry.name << ": " << planned.node.op->name() << " of " << planned.node.origin.path);
      CHECK(planned.choice.implementation == "cudnn");
      CHECK(planned.choice.algorithm.starts_with("e"));
      ++found;
    }
  }
  CHECK(found == 2 * (12 + 12) + 12);  // two entries train, one evaluates
}

}  // namespace trainer
