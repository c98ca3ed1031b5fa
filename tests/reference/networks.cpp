// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/networks.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "core/graph/operation.h"
#include "core/graph/ops/cross_entropy.h"

namespace trainer {
namespace {

/// Appends the network to an entry that is empty so far.
void append_forward(Program& program, size_t entry, const Network& network, int64_t batch, uint64_t seed) {
  const bool training = program.entries[entry].name == entry_name::kTrainStep;
  Builder build(program, program.entries[entry]);
  Shape images = network.input;
  images.insert(images.begin(), batch);
  const TensorId x = program.input("images", {images, DType::f32});
  const TensorId labels = program.input("labels", {{batch}, DType::i32});
  const TensorId weights = program.input("weights", {{batch}, DType::f32});
  const TensorId index = program.input("sample_index", {{batch}, DType::i32});
  const LayerContext context{.build = build,
                             .name = "",
                             .training = training,
                             .seed = seed,
                             .sample_index = index,
                             .step = step_counter(program)};
  const TensorId logits = network.build(context, x).back();
  const TensorId loss = build.emit<CrossEntropy>({logits, labels, weights}, 0.0);
  program.entries[entry].outputs.push_back({"loss", loss});
}

}  // namespace

void read_text(const std::string& text, const std::function<void(Fields&)>& declare,
               const WriteOut& write_out) {
  Diagnostics diagnostics;
  Value value = parse_yaml(text, "test.yaml", diagnostics);
  Fields fields;
  declare(fields);
  Reading reading;
  if (write_out) write_out(value, reading);
  fields.read(value, "", reading);
  reading.finish(diagnostics);
  diagnostics.throw_if_any();
}

std::string source_text(const std::string& path) {
  std::ifstream file(std::string(TRAINER_SOURCE_DIR) + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw std::runtime_error("cannot read " + path);
  return text.str();
}

Network network_from(const std::string& text) {
  Network network;
  read_text(
      text, [&](Fields& fields) { network.declare(fields); },
      [](Value& value, Reading& reading) { Network::write_out(value, "", reading); });
  Diagnostics diagnostics;
  network.check(diagnostics);
  diagnostics.throw_if_any();
  return network;
}

std::unique_ptr<Optimizer> optimizer_from(const std::string& text) {
  std::unique_ptr<Optimizer> optimizer = optimizers().front().make();
  read_text("optimizer: " + text, [&](Fields& fields) {
    fields.component("optimizer", optimizer, optimizers(), "how gradients change parameters");
  });
  return optimizer;
}

Program forward_program(const Network& network, int64_t batch, uint64_t seed) {
  Program program;
  for (const char* name : {entry_name::kTrainStep, entry_name::kEvaluate}) {
    program.entries.push_back({.name = name, .nodes = {}, .outputs = {}, .gradients = {}});
  }
  for (size_t entry : {0, 1}) append_forward(program, entry, network, batch, seed);
  return program;
}

Program training_program(const Network& network, int64_t batch, const Optimizer& optimizer,
                         const std::vector<float>& lr_table, const std::vector<Pass>& optional_passes) {
  Program program = forward_program(network, batch);
  run_passes(program, optional_passes);
  run_passes(program, {autodiff()});
  optimizer.append_update(program, program.entry(entry_name::kTrainStep), lr_table);
  run_passes(program, {dead_code()});
  return program;
}

}  // namespace trainer
