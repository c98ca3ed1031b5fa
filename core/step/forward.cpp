// SPDX-License-Identifier: Apache-2.0
#include "core/step/forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "core/config/patterns.h"
#include "core/graph/ops/embedding.h"
#include "core/step/generation.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// Declares the network's inputs. Sizes that cannot be addressed throw Error (exit 78).
std::vector<TensorId> declare_inputs(Program& program, const ForwardSpec& spec) try {
  return spec.network->declare_inputs(program, spec.samples);
} catch (const TooLarge& problem) {
  fail_at(spec.task.origin_of("model.input"), problem.what());
}

void add_network(Program& program, const ForwardSpec& spec, const std::vector<TensorId>& inputs,
                 const char* name, Logits& logits) {
  Entry entry(name);
  Builder build(program, entry);
  const auto pixels = spec.pixels.find(name);
  const LayerContext context{.build = build,
                             .name = "",
                             .training = std::string_view(name) == entry_name::kTrainStep,
                             .given_statistics = spec.given_statistics,
                             .seed = spec.seed,
                             .sample_index = program.find(input_name::kSampleIndex),
                             .step = step_counter(program),
                             .document_start = program.find(input_name::kDocumentStart),
                             .token_weights = program.find(input_name::kTokenWeights),
                             .pixels = pixels == spec.pixels.end() ? nullptr : &pixels->second};
  logits[name] = spec.network->build(context, inputs).back();
  if (spec.use.purpose == Purpose::predict) entry.outputs.push_back({output_name::kLogits, logits[name]});
  program.entries.push_back(std::move(entry));
}

/// Throws Error (exit 78) if model.freeze names nothing, or everything.
void check_freeze(const Program& program, const ForwardSpec& spec) {
  const std::vector<std::string>& patterns = spec.network->freeze;
  if (patterns.empty()) return;
  std::vector<std::string> names;
  bool trains = false;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role != Role::parameter && tensor.role != Role::state) continue;
    if (tensor.spec.dtype == DType::f32) names.push_back(tensor.name);
    trains = trains || (tensor.role == Role::parameter && !tensor.frozen);
  }
  Diagnostics diagnostics;
  const Origin origin = spec.task.origin_of("model.freeze");
  check_patterns(patterns, names, "parameter or running statistic", origin, diagnostics);
  if (!trains) diagnostics.error(origin, "leaves no parameter to train; freeze fewer");
  diagnostics.throw_if_any();
}

void add_forward(Program& program, const ForwardSpec& spec, Logits& logits) {
  const std::vector<TensorId> inputs = declare_inputs(program, spec);
  program.input(input_name::kSampleIndex, {{spec.samples}, DType::i32});
  const auto token_input = [&](const char* name, DType dtype) {
    program.input(name, {{spec.samples, spec.network->input[0]}, dtype});
  };
  if (spec.pads_tokens || (spec.masks_documents && spec.use.purpose != Purpose::predict))
    token_input(input_name::kDocumentStart, DType::i32);
  if (spec.pads_tokens) token_input(input_name::kTokenWeights, DType::f32);
  const auto add = [&](const char* name) { add_network(program, spec, inputs, name, logits); };
  if (spec.use.purpose == Purpose::train) add(entry_name::kTrainStep);
  add(spec.use.purpose == Purpose::predict ? entry_name::kPredict : entry_name::kEvaluate);
  check_freeze(program, spec);
}

}  // namespace

void check_embeddings(const Program& program, const std::vector<const char*>& inputs, int64_t ids,
                      const std::string& why) {
  for (const Entry& entry : program.entries) {
    // The ids, which are below `ids`, and all that is made of them without an embedding.
    std::set<TensorId> known;
    for (const char* input : inputs) known.insert(program.find(input));
    known.erase(kNone);
    for (const Node& node : entry.nodes) {
      const bool reads = std::ranges::any_of(node.inputs, [&](TensorId id) { return known.contains(id); });
      if (!reads) continue;
      if (dynamic_cast<const Embedding*>(node.op.get()) == nullptr) {
        known.insert(node.outputs.begin(), node.outputs.end());
        continue;
      }
      const int64_t rows = program.spec(node.inputs[Embedding::kTable]).shape[0];
      if (rows >= ids) continue;
      fail_at(node.origin,
              fmt::format("the table has {} rows, but {}; set vocab_size to {} or more", rows, why, ids));
    }
  }
}

void check_vocabulary(const Program& program, int64_t outputs) {
  check_embeddings(program, {input_name::kTokens, input_name::kNextTokens}, outputs,
                   fmt::format("token ids reach {}, as the network has {} outputs", outputs - 1, outputs));
}

Pass forward(const ForwardSpec& spec, const std::shared_ptr<Logits>& logits) {
  const auto run = [spec, logits](Program& program) {
    if (spec.use.purpose == Purpose::generate) {
      add_generation(program, spec, *logits);
    } else {
      add_forward(program, spec, *logits);
    }
    const Shape& output = program.spec(logits->begin()->second).shape;
    check_vocabulary(program,
                     task_for(output, spec.loss->target_kind(), spec.network->kind()).classes(output));
  };
  return {.name = "forward", .help = "the network's operations", .run = run};
}

Shape output_shape(const Network& network, int64_t samples) {
  Program program;
  Entry entry(entry_name::kEvaluate);
  Builder build(program, entry);
  const std::vector<TensorId> inputs = network.declare_inputs(program, samples);
  const LayerContext context{.build = build,
                             .name = "",
                             .sample_index = program.input(input_name::kSampleIndex, {{samples}, DType::i32}),
                             .step = step_counter(program)};
  return build.shape(network.build(context, inputs).back());
}

}  // namespace trainer
