// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>
#include "tests/catch.h"

#include "core/base/precision.h"
#include "core/engine/backend_library.h"
#include "core/engine/predicted_time.h"
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/linear.h"
#include "core/recipe/job.h"
#include "tests/cudnn/devices.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

bool is_convolution(const Operation& op) {
  return op.name().starts_with("conv2d");
}

/// The node as a backend would see it with activations and weights of `dtype`.
OpContext context_of(const Program& program, const Node& node, DType dtype) {
  OpContext context{.op = *node.op, .inputs = {}, .outputs = {}};
  const auto spec = [&](TensorId id) {
    return id == kNone ? TensorSpec{} : TensorSpec{program.spec(id).shape, dtype};
  };
  for (TensorId id : node.inputs) context.inputs.push_back(spec(id));
  context.outputs = node.op->infer(context.inputs);
  return context;
}

std::vector<fs::path> shipped_recipes() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(fs::path(TRAINER_SOURCE_DIR) / "configs")) {
    if (entry.path().extension() == ".yaml") found.push_back(entry.path());
  }
  return found;
}

/// Plans every convolution once; returns the number of nodes.
int plan_convolutions(const Program& program, const Planner& gpu, DType dtype) {
  int planned = 0;
  for (const Entry& entry : program.entries) {
    for (const Node& node : entry.nodes) {
      if (!is_convolution(*node.op)) continue;
      const OpContext context = context_of(program, node, dtype);
      INFO(node.op->name() << " " << attributes_text(*node.op) << " of " << node.origin.path << " in "
                           << to_string(dtype));
      const auto refusal = gpu.why_not(context);
      CAPTURE(refusal.value_or(""));
      REQUIRE(!refusal);
      const Choice choice = gpu.select(context, OpenLayouts(context.inputs.size()));
      REQUIRE(choice.algorithm.starts_with("e"));
      REQUIRE(choice.implementation.starts_with("cudnn"));
      REQUIRE(choice.workspace_bytes >= 0);
      ++planned;
    }
  }
  return planned;
}

Job job_in(const fs::path& path, Precision precision, Planner& gpu, std::vector<std::string> overrides = {}) {
  REQUIRE(!gpu.set_precision(precision));
  overrides.push_back("training.precision=" + std::string(to_string(precision)));
  return make_job(Recipe::load(path.string(), overrides), gpu);
}

bool is_product(const Operation& op) {
  return is_convolution(op) || op.name().starts_with("linear");
}

/// Whether the tensor is read, and only by casts to f32.
bool becomes_f32(const Plan& plan, const PlannedEntry& entry, TensorId id) {
  bool is_read = false;
  for (const PlannedNode& planned : entry.nodes) {
    const Node& node = planned.node;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != id) continue;
      is_read = true;
      const Tensor& cast = plan.tensors[static_cast<size_t>(node.outputs[i])];
      if (node.op->name() != "cast" || cast.spec.dtype != DType::f32) return false;
    }
  }
  return is_read;
}

/// Factors have two bytes, masks one. Gradients of weights and all persistent tensors except copies are f32;
/// a convolution's may be cast to f32 by the only node that reads it. Workspaces have addresses that cuBLASLt
/// accepts. Returns the number of products.
int check_types(const Plan& plan, DType low) {
  for (const Tensor& tensor : plan.tensors)
    CHECK((!is_persistent(tensor.role) || tensor.role == Role::derived || !is_low(tensor.spec.dtype)));
  const auto dtype = [&](TensorId id) { return plan.tensors[static_cast<size_t>(id)].spec.dtype; };
  for (const PlannedEntry& entry : plan.entries) {
    for (const PlannedNode& planned : entry.nodes) {
      if (planned.choice.workspace_bytes > 0) CHECK(planned.workspace_offset % 256 == 0);
    }
  }
  int products = 0;
  for (const PlannedEntry& entry : plan.entries) {
    for (const PlannedNode& planned : entry.nodes) {
      const Node& node = planned.node;
      if (!is_product(*node.op)) continue;
      INFO(entry.name << ": " << node.op->name() << " of " << node.origin.path);
      const bool gradient = node.op->name().ends_with("backward_weights");
      const bool has_bias = !node.op->name().ends_with("backward_data");
      const size_t factors = gradient || !has_bias ? 2 : Conv2d::kBias + 1;
      for (size_t i = 0; i < std::min(node.inputs.size(), factors); ++i)
        CHECK((node.inputs[i] == kNone || dtype(node.inputs[i]) == low));
      // After a convolution's own output there may be moments; a bias has a gradient like its weights.
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        const bool is_cast = node.op->name() == "conv2d_backward_weights" && o == 0 &&
                             node.outputs[o] != kNone && becomes_f32(plan, entry, node.outputs[o]);
        const bool is_moment = o > 0 && node.op->name() == "conv2d";
        const auto* linear = dynamic_cast<const Linear*>(node.op.get());
        const bool is_mask =
            linear != nullptr && linear->function == LinearFunction::relu_with_mask && o == 1;
        const DType expected = is_mask ? DType::u8 : (gradient || is_moment) && !is_cast ? DType::f32 : low;
        CHECK((node.outputs[o] == kNone || dtype(node.outputs[o]) == expected));
      }
      ++products;
    }
  }
  return products;
}

/// "RECIPE, tab, layer, tab, elements" for each matrix of a product of cuBLASLt with rows that do not begin
/// at multiples of 16 bytes.
void add_unaligned(const std::string& recipe, const Plan& plan, std::set<std::string>& found) {
  constexpr int64_t kLoad = 16;
  for (const PlannedEntry& entry : plan.entries) {
    for (const PlannedNode& planned : entry.nodes) {
      const Node& node = planned.node;
      if (!node.op->name().starts_with("linear") && node.op->name() != "matmul") continue;
      const auto look_at = [&](const std::vector<TensorId>& ids, const std::vector<Layout>& layouts) {
        for (size_t i = 0; i < ids.size(); ++i) {
          if (ids[i] == kNone) continue;
          const TensorSpec& spec = plan.tensors[static_cast<size_t>(ids[i])].spec;
          if (spec.shape.size() < 2 || spec.dtype == DType::u8) continue;
          const std::vector<int64_t>& strides = layouts[i].strides;
          const int64_t step = strides.empty() ? spec.shape.back() : strides[strides.size() - 2];
          if (step * bytes_per_element(spec.dtype) % kLoad != 0)
            found.insert(fmt::format("{}\t{}\t{}", recipe, node.origin.path, step));
        }
      };
      look_at(node.inputs, planned.choice.inputs);
      look_at(node.outputs, planned.choice.outputs);
    }
  }
}

/// The rows of docs/gpu/unaligned_products.tsv without their reasons.
std::set<std::string> documented_unaligned() {
  std::ifstream file(std::string(TRAINER_SOURCE_DIR) + "/docs/gpu/unaligned_products.tsv");
  std::set<std::string> rows;
  std::string line;
  std::getline(file, line);  // the header
  while (std::getline(file, line)) rows.insert(line.substr(0, line.rfind('\t')));
  return rows;
}

/// Normalisations with moments that a convolution computes.
int count_tables(const Plan& plan) {
  int found = 0;
  for (const PlannedEntry& entry : plan.entries) {
    for (const PlannedNode& planned : entry.nodes)
      found +=
          planned.node.op->name() == "batch_norm" && planned.node.inputs[BatchNorm::kSums] != kNone ? 1 : 0;
  }
  return found;
}

int count(const Plan& plan, std::string_view operation) {
  int found = 0;
  for (const PlannedEntry& entry : plan.entries) {
    for (const PlannedNode& planned : entry.nodes) found += planned.node.op->name() == operation ? 1 : 0;
  }
  return found;
}

/// How many kernels one run of an entry starts.
int kernels_of(const PlannedEntry& entry) {
  int sum = 0;
  for (const PlannedNode& planned : entry.nodes) sum += planned.runs ? planned.choice.kernels : 0;
  return sum;
}

/// Convolutions with sums cleared in advance; all that have zeros at all.
std::pair<int, int> count_cleared(const Plan& plan, const PlannedEntry& entry) {
  int cleared = 0, all = 0;
  for (const PlannedNode& planned : entry.nodes) {
    const Node& node = planned.node;
    if (node.op->name() != "conv2d" || node.inputs[Conv2d::kZeroSums] == kNone) continue;
    const auto offset = [&](TensorId id) { return plan.placements[static_cast<size_t>(id)].offset; };
    ++all;
    if (offset(node.inputs[Conv2d::kZeroSums]) == offset(node.outputs[Conv2d::kSums]) &&
        offset(node.inputs[Conv2d::kZeroSquares]) == offset(node.outputs[Conv2d::kSquares]))
      ++cleared;
  }
  return {cleared, all};
}

}  // namespace

TEST_CASE("every shipped recipe has a plan in mixed precision, its products in the low type and aligned") {
  const DeviceDescription device = shipped_device("h200");
  const auto gpu = load_backend("cuda", BackendRequest{.described = &device}).planner;
  Precision precision = Precision::amp_fp16;
  std::set<std::string> unaligned;
  for (const fs::path& path : shipped_recipes()) {
    INFO(path << " in " << to_string(precision));
    const Plan plan = job_in(path, precision, *gpu).plan;
    CHECK(check_types(plan, *low_type(precision)) > 5);
    add_unaligned(path.stem().string(), plan, unaligned);
    precision = precision == Precision::amp_fp16 ? Precision::amp_bf16 : Precision::amp_fp16;
  }
  CHECK(unaligned == documented_unaligned());
}

TEST_CASE("ResNet-50 in mixed precision on A100, H200 and B200: each weight cast once, nothing reordered") {
  const DeviceDescription device = shipped_device(GENERATE("a100", "h200", "b200"));
  INFO(device.name);
  const auto gpu = load_backend("cuda", BackendRequest{.described = &device}).planner;
  const fs::path path = fs::path(TRAINER_SOURCE_DIR) / "configs/resnet50_imagenet.yaml";
  for (const Precision precision : {Precision::amp_fp16, Precision::amp_bf16}) {
    INFO(to_string(precision));
    const Job job = job_in(path, precision, *gpu, {"training.micro_batch_size=32"});
    // Normalisations within products: of the last convolution of each block and of the first projection.
    // Exceptions are those with few rows, and the last one, because no product follows its relu.
    constexpr int kFolded = 14;
    CHECK(count(job.plan, "gram_batch_norm") == 2 * kFolded);
    // Each of two training entries has 53 convolutions and a linear layer with their gradients (the first
    // layer has none for the images); evaluation has only the layers. A folded normalisation adds two
    // products: the Gram matrix, and x times a matrix in the gradient.
    CHECK(check_types(job.plan, *low_type(precision)) == 2 * (3 * 54 - 1 + 2 * kFolded) + 54);
    CHECK(count(job.plan, "reorder") == 0);
    CHECK(count_tables(job.plan) == 2 * (52 - kFolded));
    // In the first of two training entries one for 54 weights and a bias; in each one for 53 gradients. In
    // evaluation 55, 54 biases, and the logits for their readers. Images come as bytes.
    CHECK(count(job.plan, "cast") == 1 + 2 + 109);
    CHECK(count(job.plan, "scale_pixels") == 3);
    for (const PlannedNode& planned : job.plan.entries[0].nodes) {
      if (planned.node.op->name() == "conv2d_backward_weights")
        CHECK(planned.choice.implementation == "cudnn");  // the conversion is a node, for all at once
    }
  }
}

TEST_CASE("a step of a residual network starts few kernels and moves little on A100, H200 and B200") {
  const DeviceDescription device = shipped_device(GENERATE("a100", "h200", "b200"));
  const auto gpu = load_backend("cuda", BackendRequest{.described = &device}).planner;
  const std::string precision = GENERATE("amp_fp16", "amp_bf16");
  REQUIRE(!gpu->set_precision(*precision_named(precision)));
  INFO(device.name << " in " << precision);
  struct Step {
    const char* recipe;
    const char* batch;
    int measured;  ///< by convolutions; the first one is not, other normalisations are within products
    int most_kernels;
    double most_bytes;  ///< of a sample
  };
  for (const auto& [name, batch, measured, most, most_bytes] :
       {Step{"resnet50_imagenet", "256", 52 - 16, 408, 250e6},
        Step{"resnet18_cifar10", "128", 19, 142, 22e6}}) {
    INFO(name);
    const auto recipe =
        Recipe::load(std::string(TRAINER_SOURCE_DIR) + "/configs/" + name + ".yaml",
                     {"training.precision=" + precision, std::string("training.global_batch_size=") + batch,
                      std::string("training.micro_batch_size=") + batch});
    const Plan plan = make_job(recipe, *gpu).plan;
    const PlannedEntry& step = plan.entry(entry_name::kTrainStep);
    CHECK(kernels_of(step) <= most);
    CHECK(cost_of(plan, step, *gpu->rates()).bytes <= most_bytes * std::stod(batch));
    CHECK(count_cleared(plan, step) == std::pair{measured, measured});
  }
}

TEST_CASE(
    "GPT-2 in bf16 casts no logits, and adds no gradient of a matrix in a pass of its own but the table's") {
  const DeviceDescription device = shipped_device("h200");
  const auto gpu = load_backend("cuda", BackendRequest{.described = &device}).planner;
  const fs::path path = fs::path(TRAINER_SOURCE_DIR) / "configs/gpt2_tokens.yaml";
  const Plan plan = job_in(path, Precision::amp_bf16, *gpu).plan;
  const PlannedEntry& next = plan.entry(entry_name::kAccumulateNext);
  int matrices = 0;
  for (const PlannedNode& planned : next.nodes) {
    CHECK(planned.node.op->name() != "cast");
    if (planned.node.op->name() != "add") continue;
    for (const TensorId sum : planned.node.outputs)
      matrices += plan.tensors[static_cast<size_t>(sum)].spec.shape.size() == 2;
  }
  CHECK(matrices == 2);  // the tied table's two readers, and positions with their sum so far
}

TEST_CASE("nothing moves between pixels and tokens") {
  const DeviceDescription device = shipped_device("h200");
  const auto gpu = load_backend("cuda", BackendRequest{.described = &device}).planner;
  for (const char* name : {"convnext_tiny_imagenet", "vit_tiny_imagenet"}) {
    INFO(name);
    const fs::path path = fs::path(TRAINER_SOURCE_DIR) / "configs" / (std::string(name) + ".yaml");
    const Plan plan = job_in(path, Precision::amp_bf16, *gpu).plan;
    CHECK(count(plan, "transpose") == 0);
    CHECK(count(plan, "reorder") == 1);  // of images that mixup has mixed, as f32
  }
}

TEST_CASE("images go to a GPU as bytes, but those that mixup blends") {
  const DeviceDescription device = shipped_device("h200");
  const auto gpu = load_backend("cuda", BackendRequest{.described = &device}).planner;
  auto type = [&](const std::vector<std::string>& overrides, const std::vector<std::string>& disabled) {
    const std::string path = std::string(TRAINER_SOURCE_DIR) + "/configs/resnet18_cifar10.yaml";
    const auto recipe = Recipe::load(path, overrides);
    const Job job = make_job(recipe, *gpu, {.disabled_passes = disabled, .plan = false});
    const BatchInputs inputs = batch_contents(recipe, job.program);
    return inputs[*find_input(inputs, input_name::kImages)].dtype;
  };
  CHECK(type({}, {}) == DType::u8);
  CHECK(type({"data.mix.cutmix=1"}, {}) == DType::u8);
  CHECK(type({"data.mix.mixup=0.2"}, {}) == DType::f32);
  CHECK(type({}, {"read_pixels"}) == DType::f32);
}

TEST_CASE("every shipped recipe has a plan for A100, H200 and B200, its convolutions in all types") {
  const DeviceDescription device = shipped_device(GENERATE("a100", "h200", "b200"));
  INFO(device.name);
  const auto gpu = load_backend("cuda", BackendRequest{.described = &device}).planner;
  int planned = 0;
  const auto recipes = shipped_recipes();
  CHECK(recipes.size() >= 7);
  for (const fs::path& path : recipes) {
    INFO(path);
    const auto recipe = Recipe::load(path.string(), {});
    // On as many ranks as it asks for: Llama 8B fits on none alone.
    const std::optional<AutoCount>& data = recipe->parallelism.data;
    const int64_t ranks = data ? data->count.value_or(1) : 1;
    const Job job = make_job(RunSpec(recipe, {.rank = 0, .ranks = ranks}), *gpu);
    CHECK(job.memory.total() < gpu->memory_bytes());
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
      planned += plan_convolutions(job.program, *gpu, dtype);
  }
  CHECK(planned > 1000);
}

}  // namespace trainer
