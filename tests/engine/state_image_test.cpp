// SPDX-License-Identifier: Apache-2.0
#include "core/engine/state_image.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/run/checkpoint_files.h"
#include "cpu/backend.h"
#include "tests/engine/late_backend.h"
#include "tests/reference/networks.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

constexpr int64_t kImageRows = 3;

/// Channels that fill no block, so that stored tensors have padding; averages; a clipped norm; moments.
Program program() {
  const Network network = network_from(
      "{input: [3, 9, 7], layers: [{conv2d: {out_channels: 19, kernel_size: 3}}, batch_norm, relu, {conv2d: "
      "{out_channels: 21, kernel_size: 3}}, relu, global_avg_pool2d, flatten, {linear: 5}]}");
  return training_program(network, kImageRows, *optimizer_from("{name: adamw, clip_norm: 1}"), {0.01f, 0.02f},
                          {fuse_relu(), average_weights(0.9)});
}

/// An executable with batches of its own.
struct Training {
  explicit Training(const Backend& backend)
      : device(*backend.device), executable(make_plan(program(), *backend.planner), device) {
    initialize(executable, 3);
    for (const char* name :
         {input_name::kImages, input_name::kLabels, input_name::kWeights, input_name::kSampleIndex}) {
      const TensorId id = executable.tensor(name);
      const TensorSpec& spec = executable.plan().tensors[static_cast<size_t>(id)].spec;
      inputs.push_back({id, spec, device.allocate_batch(numel(spec.shape) * bytes_per_element(spec.dtype))});
      executable.bind(id, inputs.back().memory.data());
    }
  }

  void step(uint32_t number) {
    RandomStream random(random_key(9, "batch"), number);
    for (const Input& input : inputs) {
      for (int64_t i = 0; i < numel(input.spec.shape); ++i) {
        const float drawn = random.next_uniform();
        if (input.spec.dtype == DType::f32) {
          reinterpret_cast<float*>(input.memory.data())[i] = drawn;
        } else {
          reinterpret_cast<int32_t*>(input.memory.data())[i] = static_cast<int32_t>(5 * drawn);
        }
      }
    }
    executable.run(executable.entry(entry_name::kTrainStep));
    device.synchronize(device.record_event());
  }

  /// Everything that persists, by name.
  std::map<std::string, std::vector<double>> state() const {
    std::map<std::string, std::vector<double>> all;
    for (size_t i = 0; i < executable.plan().tensors.size(); ++i) {
      const Tensor& tensor = executable.plan().tensors[i];
      if (is_persistent(tensor.role)) all[tensor.name] = executable.read<double>(static_cast<TensorId>(i));
    }
    return all;
  }

  struct Input {
    TensorId id;
    TensorSpec spec;
    Buffer memory;
  };
  Device& device;
  Executable executable;
  std::vector<Input> inputs;
};

std::vector<std::byte> bytes_of(const StateImage& image, TensorId id) {
  std::vector<std::byte> all;
  image.read(id,
             [&](std::span<const std::byte> piece) { all.insert(all.end(), piece.begin(), piece.end()); });
  return all;
}

/// Tensors that are not in a checkpoint have no meaning between steps.
void drop_sums(std::map<std::string, std::vector<double>>& state) {
  std::erase_if(state, [](const auto& entry) { return entry.first.ends_with(".gradient"); });
}

/// A program of two ranks: rank 1 holds one moment of each parameter.
Program sharded_program() {
  Program shared = program();
  for (Tensor& tensor : shared.tensors) {
    if (tensor.name.ends_with(".exp_avg")) tensor.rank = 1;
  }
  return shared;
}

}  // namespace

TEST_CASE("an image has every persistent tensor as it was when it was taken") {
  const auto cpu = make_cpu_backend(2);
  Training run(cpu);
  run.step(1);
  StateImage image(run.executable);
  image.take();
  const auto before = run.state();
  run.step(2);
  size_t changed = 0, with_layout = 0;
  for (size_t i = 0; i < run.executable.plan().tensors.size(); ++i) {
    const Tensor& tensor = run.executable.plan().tensors[i];
    if (!is_persistent(tensor.role) || tensor.spec.dtype != DType::f32) continue;
    const auto id = static_cast<TensorId>(i);
    const std::vector<std::byte> found = bytes_of(image, id);
    const std::vector<double>& numbers = before.at(tensor.name);
    const std::vector<float> expected(numbers.begin(), numbers.end());
    REQUIRE(found.size() == expected.size() * sizeof(float));
    CHECK(std::memcmp(found.data(), expected.data(), found.size()) == 0);
    changed += run.executable.read(id) != expected;
    with_layout += !run.executable.plan().placements[i].layout.row_major();
  }
  CHECK(changed > 10);
  CHECK(with_layout > 5);
}

TEST_CASE("padding is zero again where a tensor is written, whatever a run that went wrong has left there") {
  const auto cpu = make_cpu_backend(2);
  Training run(cpu);
  StateImage image(run.executable, StateImage::Memory::shared);
  const Plan& plan = run.executable.plan();
  size_t with_padding = 0;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const Layout& layout = plan.placements[i].layout;
    const Shape& shape = plan.tensors[i].spec.shape;
    if (!is_persistent(plan.tensors[i].role) || layout.row_major() || !layout.has_padding()) continue;
    ++with_padding;
    const std::vector<std::byte> values = bytes_of(image, static_cast<TensorId>(i));
    auto* stored = reinterpret_cast<float*>(run.executable.persistent().data() + plan.placements[i].offset);
    std::vector<float> expected(static_cast<size_t>(stored_elements(layout, shape)), 0.0f);
    for_each_place(layout, shape,
                   [&](int64_t place) { expected[static_cast<size_t>(place)] = stored[place]; });
    std::fill_n(stored, expected.size(), std::nanf(""));
    image.write(static_cast<TensorId>(i), values);
    CHECK(std::equal(expected.begin(), expected.end(), stored));
  }
  CHECK(with_padding > 0);
}

TEST_CASE("an image that is restored makes the same steps follow") {
  const auto cpu = make_cpu_backend(2);
  Training run(cpu);
  run.step(1);
  StateImage image(run.executable);
  image.take();
  run.step(2);
  const auto expected = run.state();
  run.step(3);
  REQUIRE(run.state() != expected);
  image.restore();
  run.step(2);
  CHECK(run.state() == expected);
}

TEST_CASE("whole numbers pass through an image exactly") {
  const auto cpu = make_cpu_backend(1);
  Training run(cpu);
  const TensorId counter = run.executable.tensor("counter.step");
  StateImage image(run.executable);
  image.take();
  const int32_t large = (1 << 30) + 1;  // no float has it
  image.write(counter, std::as_bytes(std::span(&large, 1)));
  image.restore();
  image.take();
  int32_t found = 0;
  std::memcpy(&found, bytes_of(image, counter).data(), sizeof found);
  CHECK(found == large);
}

TEST_CASE("a checkpoint's files take a training on, on any device and in any layout") {
  const test::ScratchDirectory scratch;
  const auto cpu = make_cpu_backend(2);
  Training run(cpu);
  run.step(1);
  run.step(2);
  StateImage image(run.executable);
  image.take();
  CheckpointWriter writer(scratch.path(), 2);
  add_tensors(writer, run.executable.plan(), image);
  const auto path = writer.commit();
  run.step(3);
  auto expected = run.state();
  drop_sums(expected);

  const auto other = make_cpu_backend(2);
  LateBackend late(other);
  for (const Backend* backend : {&other, static_cast<const Backend*>(&late)}) {
    Training next(*backend);
    load_checkpoint(next.executable, path);
    next.step(3);
    auto found = next.state();
    drop_sums(found);
    CHECK(found == expected);
  }
}

TEST_CASE("what another rank holds has memory where it is saved, is in the files, and comes back from them") {
  const test::ScratchDirectory scratch;
  const auto cpu = make_cpu_backend(1);
  const Program shared = sharded_program();
  const Plan plan = make_plan(shared, *cpu.planner, 0), other = make_plan(shared, *cpu.planner, 1);
  CHECK(other.elsewhere_bytes == 0);
  CHECK(plan.persistent_bytes + plan.elsewhere_bytes == other.persistent_bytes);
  CHECK(plan.persistent_by_kind.at("optimizer") + plan.elsewhere_bytes ==
        other.persistent_by_kind.at("optimizer"));
  CHECK(to_text(plan) == to_text(other));
  Executable executable(plan, *cpu.device);
  initialize(executable, 3);
  std::vector<std::pair<TensorId, std::vector<double>>> moments;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    if (!plan.tensors[i].rank) continue;
    const auto id = static_cast<TensorId>(i);
    CHECK(executable.address(id) == nullptr);
    const auto count = static_cast<size_t>(numel(plan.tensors[i].spec.shape));
    moments.emplace_back(id, std::vector<double>(count, static_cast<double>(i)));
  }
  REQUIRE(moments.size() == 8);
  CHECK(executable.allocated_bytes() == plan.persistent_bytes + plan.scratch_bytes);
  executable.hold_elsewhere();
  CHECK(executable.allocated_bytes() == other.persistent_bytes + plan.scratch_bytes);
  for (const auto& [id, values] : moments) executable.write(id, values);
  const auto memory = GENERATE(StateImage::Memory::own, StateImage::Memory::shared);
  StateImage image(executable, memory);
  image.take();
  CheckpointWriter writer(scratch.path(), 2);
  add_tensors(writer, plan, image);
  const auto path = writer.commit();
  for (const auto& [id, values] : moments) executable.fill(id, 0);
  load_checkpoint(executable, path);
  for (const auto& [id, values] : moments) CHECK(executable.read<double>(id) == values);
}

TEST_CASE("tensors of other ranks are in host memory, which the device does not copy") {
  const auto cpu = make_cpu_backend(1);
  const LateBackend late(cpu);
  const Plan plan = make_plan(sharded_program(), *late.planner, 0);
  Executable executable(plan, *late.device);  // whose memory is still to be cleared
  executable.hold_elsewhere();
  int64_t found = 0;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    if (!plan.tensors[i].rank) continue;
    const auto id = static_cast<TensorId>(i);
    CHECK(executable.read<double>(id) == std::vector<double>(numel(plan.tensors[i].spec.shape), 0));
    executable.fill(id, 2);
    CHECK(executable.read<double>(id) == std::vector<double>(numel(plan.tensors[i].spec.shape), 2));
    ++found;
  }
  CHECK(found == 8);
  CHECK(late.late().waits() == 0);
}

TEST_CASE("files that do not fit a run are refused with every tensor that is wrong") {
  const test::ScratchDirectory scratch;
  const auto cpu = make_cpu_backend(1);
  Training run(cpu);
  StateImage image(run.executable);
  image.take();
  CheckpointWriter writer(scratch.path(), 2);
  add_tensors(writer, run.executable.plan(), image);
  const auto path = writer.commit();
  const Network other =
      network_from("{input: [3, 9, 7], layers: [flatten, {linear: {out_features: 5, name: fc}}]}");
  Executable executable(
      make_plan(training_program(other, kImageRows, *optimizer_from("{name: sgd}"), {0.1f}, {}),
                *cpu.planner),
      *cpu.device);
  const std::string text = test::error_text(ExitCode::data, [&] { load_checkpoint(executable, path); });
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("it has no 'fc.weight'") &&
                       Catch::Matchers::ContainsSubstring("the run has no '"));
}

}  // namespace trainer
