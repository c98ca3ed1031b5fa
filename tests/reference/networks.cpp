// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/networks.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "core/base/file.h"
#include "core/config/templates.h"
#include "core/graph/operation.h"

namespace trainer {
namespace {

/// The targets that the loss compares the logits with.
Targets declare_targets(Program& program, const Shape& logits, TargetKind kind) {
  Targets targets{.weights = program.find(input_name::kWeights)};
  if (kind == TargetKind::label_set) {
    targets.values = program.input(input_name::kTargets, {logits, DType::f32});
  } else if (kind == TargetKind::numbers) {
    targets.values = program.find(input_name::kImages);
  } else {
    Shape labels = logits;
    labels.erase(labels.begin() + 1);
    targets.labels = program.input(input_name::kLabels, {labels, DType::i32});
  }
  return targets;
}

/// Appends the network to an entry that is empty so far.
void append_forward(Program& program, size_t entry, const Network& network, int64_t batch, uint64_t seed,
                    const Loss& loss) {
  const bool training = program.entries[entry].name == entry_name::kTrainStep;
  Builder build(program, program.entries[entry]);
  Shape images = network.input;
  images.insert(images.begin(), batch);
  const TensorId x = program.input(input_name::kImages, {images, DType::f32});
  program.input(input_name::kWeights, {{batch}, DType::f32});
  const TensorId index = program.input(input_name::kSampleIndex, {{batch}, DType::i32});
  const LayerContext context{.build = build,
                             .name = "",
                             .training = training,
                             .seed = seed,
                             .sample_index = index,
                             .step = step_counter(program)};
  const TensorId logits = network.build(context, {x}).back();
  const Targets targets = declare_targets(program, build.shape(logits), loss.target_kind());
  const TensorId sum = loss.build(build, logits, targets).sum;
  program.entries[entry].outputs.push_back({output_name::kLoss, sum});
  if (!training) program.entries[entry].outputs.push_back({output_name::kLogits, logits});
}

/// Reads a document into the targets bound by `declare`. Throws Error with all problems, its own and those
/// found before.
void read_value(Value value, Diagnostics& diagnostics, const std::function<void(Fields&)>& declare,
                const WriteOut& write_out) {
  Fields fields;
  declare(fields);
  Reading reading;
  if (write_out) write_out(value, reading);
  fields.read(value, "", reading);
  reading.finish(diagnostics);
  diagnostics.throw_if_any();
}

Network read_network(Value value, Diagnostics& diagnostics) {
  Network network;
  read_value(
      std::move(value), diagnostics, [&](Fields& fields) { network.declare(fields); },
      [](Value& read, Reading& reading) { Network::write_out(read, "", reading); });
  network.check(diagnostics);
  diagnostics.throw_if_any();
  return network;
}

/// A packed test finds the shipped files in the install folder.
std::string source_path(const std::string& path) {
  const std::filesystem::path sources = TRAINER_SOURCE_DIR,
                              installed = program_directory() / "../share/trainer";
  return (std::filesystem::exists(sources) ? sources : installed) / path;
}

}  // namespace

void read_text(const std::string& text, const std::function<void(Fields&)>& declare,
               const WriteOut& write_out) {
  Diagnostics diagnostics;
  read_value(parse_yaml(text, "test.yaml", diagnostics), diagnostics, declare, write_out);
}

std::string source_text(const std::string& path) {
  std::ifstream file(source_path(path));
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw std::runtime_error("cannot read " + path);
  return text.str();
}

Network network_from(const std::string& text) {
  Diagnostics diagnostics;
  return read_network(parse_yaml(text, "test.yaml", diagnostics), diagnostics);
}

Network network_file(const std::string& path, const std::vector<std::string>& overrides) {
  Diagnostics diagnostics;
  Value value = load_yaml(source_path(path), {.file = path}, diagnostics);
  for (const std::string& text : overrides) apply_override(value, text, 0, diagnostics);
  include_templates(value, "", diagnostics);
  diagnostics.throw_if_any();
  return read_network(std::move(value), diagnostics);
}

std::unique_ptr<Optimizer> optimizer_from(const std::string& text) {
  std::unique_ptr<Optimizer> optimizer = optimizers().front().make();
  read_text("optimizer: " + text,
            [&](Fields& fields) { fields.component("optimizer", optimizer, optimizers(), "the optimiser"); });
  return optimizer;
}

void append_update(const Optimizer& optimizer, Program& program, Entry& entry,
                   const std::vector<float>& learning_rates, const StepGuards& guards, bool adapts_lr) {
  const UpdateSpec spec{
      .optimizer = &optimizer, .learning_rates = learning_rates, .guards = guards, .adapts_lr = adapts_lr};
  UpdateState state;
  Update update(program, entry, spec, state);
  look_up_learning_rate(update);
  average_loss(update);
  guard_step(update);
  limit_gradients(update);
  if (scales_loss(program)) move_loss_scale(update);
  change_parameters(update);
}

std::unique_ptr<Loss> loss_from(const std::string& text) {
  std::unique_ptr<Loss> loss = losses().front().make();
  read_text("loss: " + text, [&](Fields& fields) { fields.component("loss", loss, losses(), "the loss"); });
  return loss;
}

Program forward_program(const Network& network, int64_t batch, uint64_t seed, const Loss* loss) {
  const std::unique_ptr<Loss> usual = losses().front().make();
  Program program;
  for (const char* name : {entry_name::kTrainStep, entry_name::kEvaluate}) {
    program.entries.emplace_back(name);
  }
  for (size_t entry : {0, 1})
    append_forward(program, entry, network, batch, seed, loss == nullptr ? *usual : *loss);
  return program;
}

std::vector<Pass> rest_of_step(StepSpec spec) {
  const std::unique_ptr<Loss> usual = losses().front().make();
  if (spec.forward.loss == nullptr) spec.forward.loss = usual.get();
  std::vector<Pass> passes = training_step(spec);
  std::erase_if(passes, [](const Pass& pass) { return pass.name == "forward" || pass.name == "loss"; });
  return passes;
}

Program training_program(const Network& network, int64_t batch, const Optimizer& optimizer,
                         const std::vector<float>& lr_table, const std::vector<Pass>& optional_passes) {
  Program program = forward_program(network, batch);
  run_passes(program, optional_passes);
  run_passes(program, {autodiff()});
  append_update(optimizer, program, program.entry(entry_name::kTrainStep), lr_table);
  run_passes(program, {dead_code()});
  return program;
}

}  // namespace trainer
