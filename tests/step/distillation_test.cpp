// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/base/error.h"
#include "core/storage/safetensors.h"
#include "cpu/backend.h"
#include "tests/catch.h"
#include "tests/reference/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

namespace trainer {
namespace {

std::unique_ptr<Loss> distillation(double temperature, double alpha, double smoothing) {
  return loss_from(
      fmt::format("{{name: distillation, teacher: {{recipe: r.yaml, weights: w.safetensors}}, "
                  "temperature: {}, alpha: {}, label_smoothing: {}}}",
                  temperature, alpha, smoothing));
}

const char* const kStudent = "{input: [2, 4, 4], layers: [flatten, {linear: {out_features: 3, name: fc}}]}";
const char* const kBig = R"(
input: [2, 4, 4]
layers:
  - conv2d: {out_channels: 5, kernel_size: 3, name: conv}
  - batch_norm: {name: norm}
  - relu
  - dropout: 0.5
  - flatten
  - linear: {out_features: 3, name: fc}
)";

std::shared_ptr<const Program> prediction(const Network& network) {
  const auto loss = loss_from("{name: cross_entropy}");
  Program program;
  run_passes(
      program,
      forward_stages(
          {.use = {.purpose = Purpose::predict}, .network = &network, .loss = loss.get(), .samples = 2}));
  return std::make_shared<const Program>(std::move(program));
}

/// The forward part of a step whose loss learns from such a network.
Program distilled(const Network& student, const Network& big, const Loss& loss) {
  Program program;
  ForwardSpec spec{.network = &student, .loss = &loss, .samples = 2, .teacher = prediction(big)};
  spec.task.input = {2, 4, 4};
  spec.task.output = {2, 3};
  spec.task.origin_of = [](const std::string& key) { return Origin{{.file = "s.yaml"}, key}; };
  spec.reported = [] { return Reported{.metrics = {loss_metric()}}; };
  run_passes(program, forward_stages(spec));
  return program;
}

}  // namespace

TEST_CASE("distillation is PyTorch's sum of both cross entropies, with its gradient") {
  const SafetensorsFile file(TRAINER_SOURCE_DIR "/tests/fixtures/distillation.safetensors");
  const auto values = [&](const std::string& name) { return file.read_floats(*file.find(name)); };
  for (const std::string shape : {"3x10", "1x2", "2x5x7", "2x4x3x5"}) {
    for (const std::string temperature : {"1", "4", "0.5"}) {
      const std::string name = shape + "_" + temperature + "/";
      const std::vector<float> settings = values(name + "settings");
      const auto loss = distillation(settings[0], settings[1], settings[2]);
      Program program;
      program.entries.emplace_back(entry_name::kTrainStep);
      Builder build(program, program.entries[0]);
      const Shape sizes = file.find(name + "x")->shape;
      const TensorId x = program.persistent("x", {sizes, DType::f32}, Role::parameter, {});
      const Targets targets{
          .labels = program.input("labels", {file.find(name + "labels")->shape, DType::i32}),
          .weights = program.input("weights", {{sizes[0]}, DType::f32}),
          .teacher = program.input("teacher", {sizes, DType::f32})};
      program.entries[0].outputs.push_back({output_name::kLoss, loss->build(build, x, targets).sum});
      run_passes(program, {autodiff()});
      program.entries[0].outputs.push_back({"dx", program.entries[0].gradients.at(0).gradient});
      const Backend reference = make_reference_backend(), cpu = make_cpu_backend(2);
      for (const Backend* backend : {&reference, &cpu}) {
        INFO(name << " on " << backend->planner->name());
        Session session(program, *backend);
        session.set({{"x", values(name + "x")},
                     {"teacher", values(name + "teacher")},
                     {"labels", values(name + "labels")},
                     {"weights", std::vector<float>(static_cast<size_t>(sizes[0]),
                                                    1.0F / static_cast<float>(sizes[0]))}});
        session.run(entry_name::kTrainStep);
        const std::vector<float> dx = values(name + "dx");
        CHECK(session.output(entry_name::kTrainStep, output_name::kLoss)[0] ==
              Approx(values(name + "loss")[0]).epsilon(1e-6));
        CHECK(relative_error(session.output(entry_name::kTrainStep, "dx"), {dx.begin(), dx.end()}) < 1e-6);
      }
    }
  }
}

TEST_CASE("a teacher's tensors are constants, and evaluation does without it") {
  const Network student = network_from(kStudent), big = network_from(kBig);
  const auto loss = distillation(4, 0.9, 0);
  const Program program = distilled(student, big, *loss);
  size_t of_teacher = 0;
  for (const Tensor& tensor : program.tensors) {
    if (!tensor.name.starts_with(kTeacherPrefix)) continue;
    CHECK(tensor.role == Role::constant);
    ++of_teacher;
  }
  CHECK(of_teacher == 8);
  CHECK(program.find("fc.weight") != kNone);
  CHECK(program.find("teacher.fc.weight") != kNone);
  const auto count = [&](const char* entry, std::string_view name) {
    const std::vector<Node>& nodes = program.find_entry(entry)->nodes;
    return std::ranges::count_if(nodes, [&](const Node& node) { return node.op->name() == name; });
  };
  CHECK(count(entry_name::kTrainStep, "soft_cross_entropy") == 1);
  CHECK(count(entry_name::kTrainStep, "batch_norm_inference") == 1);
  CHECK(count(entry_name::kTrainStep, "dropout") == 0);
  CHECK(count(entry_name::kEvaluate, "soft_cross_entropy") == 0);
  CHECK(count(entry_name::kEvaluate, "conv2d") == 0);
  Program trained = program;
  run_passes(trained, {autodiff()});
  CHECK(trained.entry(entry_name::kTrainStep).gradients.size() == 2);
}

TEST_CASE("a teacher with other inputs or outputs is refused at its key") {
  const Network student = network_from(kStudent);
  const auto loss = distillation(4, 0.9, 0);
  CHECK_THROWS_WITH(
      distilled(student, network_from("{input: [2, 4, 4], layers: [flatten, {linear: 5}]}"), *loss),
      Catch::Matchers::ContainsSubstring(
          "s.yaml: error: loss.teacher.recipe: the teacher's output is 2x5, and the network's 2x3; choose "
          "a teacher of the same classes"));
  CHECK_THROWS_WITH(
      distilled(student, network_from("{input: [2, 5, 4], layers: [flatten, {linear: 3}]}"), *loss),
      Catch::Matchers::ContainsSubstring(
          "s.yaml: error: loss.teacher.recipe: the teacher reads images 2x2x5x4, and the network 2x2x4x4; "
          "choose a teacher with the same model.input"));
}

}  // namespace trainer
