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
#include "tests/reference/thread_images.h"
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

std::vector<std::byte> bytes_of(StateImage& image, TensorId id) {
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

/// A rank's executable and image.
struct Rank {
  Executable executable;
  StateImage image;

  Rank(const Backend& backend, Plan plan, StateImage::Memory memory, OtherImages* others)
      : executable(std::move(plan), *backend.device),
        image(executable, memory, others,
              others == nullptr ? StateImage::Extent::divided : StateImage::Extent::all) {
    initialize(executable, 3);
    image.take();
  }
};

TEST_CASE("what another rank holds takes no memory here, is in the files, and comes back from them") {
  const test::ScratchDirectory scratch;
  const auto cpu = make_cpu_backend(1);
  const Program shared = sharded_program();
  const Plan plan = make_plan(shared, *cpu.planner, 0), other = make_plan(shared, *cpu.planner, 1);
  CHECK(plan.persistent_bytes < other.persistent_bytes);
  CHECK(plan.persistent_by_kind.at("optimizer") == other.persistent_by_kind.at("optimizer") / 2);
  CHECK(to_text(plan) == to_text(other));
  const auto memory = GENERATE(StateImage::Memory::own, StateImage::Memory::shared);
  test::ThreadImages others(2);
  Rank first(cpu, plan, memory, &others), second(cpu, other, memory, nullptr);
  others.of = {&first.image, &second.image};
  CHECK(StateImage::has_share(plan, 1));
  CHECK_FALSE(StateImage::has_share(plan, 2));
  std::vector<std::pair<TensorId, std::vector<double>>> moments;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    if (!plan.tensors[i].rank) continue;
    const auto id = static_cast<TensorId>(i);
    CHECK(first.executable.address(id) == nullptr);
    const auto count = static_cast<size_t>(numel(plan.tensors[i].spec.shape));
    moments.emplace_back(id, std::vector<double>(count, static_cast<double>(i)));
    second.executable.write(id, moments.back().second);
  }
  REQUIRE(moments.size() == 8);
  CHECK(first.executable.allocated_bytes() == plan.persistent_bytes + plan.scratch_bytes);
  second.image.take();
  CheckpointWriter writer(scratch.path(), 2);
  add_tensors(writer, plan, first.image);
  const auto path = writer.commit();
  for (const auto& [id, values] : moments) second.executable.fill(id, 0);
  second.image.take();
  load_checkpoint(first.executable, path, Guards::same, &others);
  second.image.restore();
  for (const auto& [id, values] : moments) CHECK(second.executable.read<double>(id) == values);
}

/// A program of eight ranks, in two stages, with one tensor in parts.
Program divided_program(const Shape& whole, const std::optional<Sections>& sections, bool is_sharded,
                        std::vector<int64_t> stages) {
  Program program;
  program.mesh = {.replicas = 1, .shards = 2, .tensor = 2, .stages = 2};
  const Part part{.whole = whole, .mesh = program.mesh, .sections = sections, .is_sharded = is_sharded};
  const TensorId id = program.add(
      {.name = "divided", .spec = {.shape = part.shape()}, .role = Role::state, .initial = {}, .part = part});
  program.tensors[static_cast<size_t>(id)].stages = std::move(stages);
  program.add({.name = "common", .spec = {.shape = {5}}, .role = Role::state, .initial = {}});
  return program;
}

TEST_CASE("rank 0 reads and writes the whole of a tensor that ranks divide, piece by piece") {
  const auto cpu = make_cpu_backend(1);
  const auto [whole, cut] = GENERATE(table<Shape, std::optional<Sections>>({
      {Shape{7, 5}, Sections{.dimension = 0, .lengths = {4, 3}}},  // padded
      {Shape{3, 9}, Sections{.dimension = 1, .lengths = {9}}},
      {Shape{1025, 2047}, Sections{.dimension = 1, .lengths = {1023, 1024}}},  // several pieces
      {Shape{6, 7}, std::nullopt},
  }));
  const bool is_sharded = GENERATE(false, true);
  const auto stages = GENERATE(std::vector<int64_t>{}, std::vector<int64_t>{1}, std::vector<int64_t>{0, 1});
  CAPTURE(whole, is_sharded, stages);
  Program program = divided_program(whole, cut, is_sharded, stages);
  test::ThreadImages others(8);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int64_t rank = 0; rank < 8; ++rank) {
    program.stage = rank / 4;
    ranks.push_back(std::make_unique<Rank>(cpu, make_plan(program, *cpu.planner, rank),
                                           StateImage::Memory::shared, rank == 0 ? &others : nullptr));
    others.of[static_cast<size_t>(rank)] = &ranks.back()->image;
  }
  const TensorId id = program.find("divided");
  std::vector<float> values(static_cast<size_t>(numel(whole)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  ranks[0]->image.write(id, std::as_bytes(std::span(values)));
  const std::vector<std::byte> found = bytes_of(ranks[0]->image, id);
  REQUIRE(found.size() == values.size() * sizeof(float));
  CHECK(std::memcmp(found.data(), values.data(), found.size()) == 0);
  const Part& part = *program.tensors[0].part;
  for (int64_t index = 0; index < part.count(); ++index) {
    const int64_t holder = first_holder(program.tensors[0], index);
    CHECK(holder / 4 == (stages.empty() ? 0 : stages.front()));
    std::vector<float> expected(static_cast<size_t>(numel(part.shape())));
    for (const ElementRun& run : part.runs(index))
      std::copy_n(values.begin() + run.in_whole, run.count, expected.begin() + run.in_part);
    CHECK((ranks[static_cast<size_t>(holder)]->executable.read(id) == expected));
  }
  CHECK(StateImage::exchange_bytes(ranks[0]->executable.plan()) > static_cast<int64_t>(found.size()));
}

TEST_CASE("a rank without the images of others reads no whole, and no image has more than its tensors") {
  const auto cpu = make_cpu_backend(1);
  const Program program = divided_program({6, 7}, std::nullopt, true, {});
  Rank rank(cpu, make_plan(program, *cpu.planner, 0), StateImage::Memory::shared, nullptr);
  CHECK_THROWS_AS(bytes_of(rank.image, program.find("divided")), std::logic_error);
  std::vector<std::byte> bytes(8);
  CHECK_THROWS_AS(rank.image.read_own("common", 12, bytes), std::logic_error);
  const int64_t size = rank.executable.plan().divided_bytes;
  REQUIRE(size == 128);  // 21 elements in a part of 32
  rank.image.read_own("divided", size - 8, bytes);
  CHECK_THROWS_AS(rank.image.read_own("divided", size - 4, bytes), std::logic_error);
  CHECK_THROWS_AS(rank.image.write_own("divided", -4, bytes), std::logic_error);
  CHECK_THROWS_AS(rank.image.read_own("other", 0, bytes), std::logic_error);
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
