// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executable.h"

#include <memory>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/engine/outputs.h"
#include "cpu/backend.h"
#include "tests/engine/counting_new.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

constexpr int64_t kBatch = 16;

Program shipped(const std::string& model) {
  return training_program(network_from(source_text("configs/models/" + model + ".yaml")), kBatch,
                          *optimizer_from("{name: adamw, clip_norm: 1}"), {0.001f}, {fuse_relu()});
}

void set_batch(Session& session, uint32_t step) {
  RandomStream random(random_key(5, "batch"), step);
  std::vector<float> images(kBatch * 784), labels(kBatch), index(kBatch);
  for (float& value : images) value = random.next_uniform();
  for (float& value : labels) value = static_cast<float>(random.next_below(10));
  for (size_t i = 0; i < index.size(); ++i) index[i] = static_cast<float>(i);
  session.set({{input_name::kImages, images},
               {input_name::kLabels, labels},
               {input_name::kSampleIndex, index},
               {input_name::kWeights, std::vector<float>(kBatch, 1.0f / kBatch)}});
}

/// Every persistent tensor and the last loss after three steps.
std::vector<std::vector<double>> trained(const Program& program, const Backend& backend) {
  Session session(program, backend);
  for (uint32_t step = 0; step < 3; ++step) {
    set_batch(session, step);
    session.run(entry_name::kTrainStep);
  }
  std::vector<std::vector<double>> all{session.output(entry_name::kTrainStep, output_name::kLoss)};
  for (const Tensor& tensor : program.tensors) {
    if (is_persistent(tensor.role)) all.push_back(session.persistent(tensor.name));
  }
  return all;
}

}  // namespace

TEST_CASE("two trainings on equal threads give the same bits") {
  for (const char* model : {"mlp", "lenet"}) {
    const Program program = shipped(model);
    for (int threads : {1, 2}) {
      const auto first = make_cpu_backend(threads);
      const auto one = trained(program, first);
      const auto second = make_cpu_backend(threads);
      CHECK(one == trained(program, second));
    }
  }
}

TEST_CASE("the counter counts what this program allocates") {
  const int64_t before = own_allocations();
  const auto number = std::make_unique<std::vector<int>>(100);
  CHECK(own_allocations() >= before + 2);
  CHECK(number->size() == 100);
}

TEST_CASE("a step allocates nothing") {
  const auto cpu = make_cpu_backend(2);
  for (const char* model : {"mlp", "lenet"}) {
    Session session(shipped(model), cpu);
    set_batch(session, 0);
    Executable& executable = session.executable();
    for (const char* name : {entry_name::kTrainStep, entry_name::kEvaluate}) {
      const size_t entry = executable.entry(name);
      Outputs outputs(executable, entry, 1);
      executable.run(entry);
      const int64_t before = own_allocations();
      double loss = 0;
      for (int i = 0; i < 3; ++i) {
        executable.run(entry);
        outputs.ask();
        loss = outputs.take().front();
      }
      CHECK(own_allocations() == before);
      CHECK(outputs.names().front() == "loss");
      CHECK(loss > 0);
    }
  }
}

TEST_CASE("a step's time is divided among its phases") {
  const auto cpu = make_cpu_backend(1);
  Session session(shipped("mlp"), cpu);
  set_batch(session, 0);
  Executable& executable = session.executable();
  const size_t train_step = executable.entry(entry_name::kTrainStep),
               evaluate = executable.entry(entry_name::kEvaluate);
  executable.run(train_step, 0);
  const PhaseSeconds train = executable.phases(train_step, 0);
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::update}) CHECK(train[phase] > 0);
  executable.run(evaluate, 0);
  const PhaseSeconds evaluation = executable.phases(evaluate, 0);
  CHECK(evaluation[Phase::forward] > 0);
  CHECK(evaluation[Phase::backward] + evaluation[Phase::update] < 0.1 * evaluation[Phase::forward]);
}

TEST_CASE("evaluation changes nothing that persists") {
  const auto cpu = make_cpu_backend(2);
  const Program program = shipped("lenet");
  Session session(program, cpu);
  set_batch(session, 0);
  session.run(entry_name::kEvaluate);
  Session fresh(program, cpu);
  for (const Tensor& tensor : program.tensors) {
    if (is_persistent(tensor.role)) CHECK(session.persistent(tensor.name) == fresh.persistent(tensor.name));
  }
}
