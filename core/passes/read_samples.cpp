// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "core/graph/builder.h"
#include "core/graph/ops/read_samples.h"
#include "core/passes/table.h"

namespace trainer {
namespace {

/// Begins an entry with the reading of its split's samples; `labels` may be kNone.
void read_samples_of(Program& program, Entry& entry, TensorId images, TensorId labels, const SampleSet& set) {
  const int64_t rows = program.spec(images).shape[0];
  Shape all = set.shape;
  all.insert(all.begin(), set.size);
  const TensorId samples =
      program.persistent(samples_name::kSamples + set.name, {all, DType::u8}, Role::samples, {});
  const TensorId answers =
      program.persistent(samples_name::kSampleLabels + set.name, {{set.size}, DType::i32}, Role::samples, {});
  const TensorId numbers = program.input(input_name::kSampleNumbers, {{rows}, DType::i32});
  const TensorId epochs = program.input(input_name::kSampleEpochs, {{rows}, DType::i32});
  std::vector<Node> nodes;
  nodes.swap(entry.nodes);
  Builder build(program, entry);
  build.set_origin({{}, "data"});
  const std::vector<TensorId> read =
      build.emit_all(std::make_shared<ReadSamples>(set.steps), {samples, answers, numbers, epochs});
  const bool are_labels = labels == kNone || program.spec(read[1]) == program.spec(labels);
  if (program.spec(read[0]) != program.spec(images) || !are_labels)
    throw std::logic_error("samples do not match the program's inputs");
  for (Node& node : nodes) {
    for (TensorId& id : node.inputs) {
      if (id == images) id = read[0];
      if (id != kNone && id == labels) id = read[1];
    }
    entry.nodes.push_back(std::move(node));
  }
  for (NamedTensor& output : entry.outputs) {
    if (labels != kNone && output.tensor == labels) output.tensor = read[1];
  }
}

}  // namespace

Pass read_samples(std::map<std::string, SampleSet> sets) {
  auto run = [sets = std::move(sets)](Program& program) {
    const TensorId images = program.find(input_name::kImages), labels = program.find(input_name::kLabels);
    for (Entry& entry : program.entries) {
      read_samples_of(program, entry, images, labels, sets.at(entry.name));
    }
    for (const TensorId id : {images, labels}) {  // no inputs any longer
      if (id == kNone) continue;
      program.tensors[static_cast<size_t>(id)].name.clear();
      program.tensors[static_cast<size_t>(id)].role = Role::activation;
    }
  };
  return {.name = "read_samples",
          .help = "take samples from the device's memory and augment them there (data.cache)",
          .optional = false,
          .run = run,
          .after = {"read_pixels"}};
}

std::optional<Pass> read_samples_pass(const PassSettings& settings) {
  return settings.samples.empty() ? std::nullopt : std::optional(read_samples(settings.samples));
}

}  // namespace trainer
