// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "core/graph/builder.h"
#include "core/graph/ops/batch_norm.h"
#include "core/graph/ops/binary.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/linear.h"
#include "core/passes/table.h"
#include "tests/catch.h"
#include "tests/passes/draft.h"
#include "tests/passes/trained.h"
#include "tests/reference/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

/// A block of a residual network: 1x1, 3x3 and 1x1 convolutions, the last of which has four times the
/// channels. It reads the layer `in` NUMBER, and its last relu is called `in` NUMBER + 1.
std::string block(int number, int width, int stride, bool projects) {
  const auto convolution = [](const std::string& input, int channels, int kernel, int steps) {
    return fmt::format(
        "{{conv2d: {{{}out_channels: {}, kernel_size: {}, stride: {}, padding: {}, bias: false}}}}, ",
        input.empty() ? "" : fmt::format("inputs: [{}], ", input), channels, kernel, steps, kernel / 2);
  };
  std::string text = convolution("", width, 1, 1) + "batch_norm, relu, " + convolution("", width, 3, stride) +
                     "batch_norm, relu, " + convolution("", 4 * width, 1, 1) +
                     fmt::format("{{batch_norm: {{name: last{}}}}}, ", number);
  std::string other = fmt::format("in{}", number);
  if (projects) {
    text += convolution(other, 4 * width, 1, stride);
    other = fmt::format("other{}", number);
    text += fmt::format("{{batch_norm: {{name: {}}}}}, ", other);
  }
  return text + fmt::format("{{add: {{inputs: [last{}, {}]}}}}, {{relu: {{name: in{}}}}}, ", number, other,
                            number + 1);
}

std::string residual_network(const std::string& last_layers) {
  return "{input: [3, 6, 6], layers: [{conv2d: {out_channels: 4, kernel_size: 3, padding: 1, bias: false}}, "
         "{relu: "
         "{name: in1}}, " +
         block(1, 2, 1, true) + block(2, 2, 1, false) + block(3, 3, 2, true) + block(4, 3, 1, false) +
         last_layers + "global_avg_pool2d, flatten, {linear: 10}]}";
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

/// Options of a draft.
struct Otherwise {
  Conv2dGeometry geometry = {};
  int64_t features = 2;
  bool bias = false, relu = true, residual = true, moments_given = false, read_twice = false, projects = true,
       frozen = false;
  double ceiling = std::numeric_limits<double>::infinity();
};

/// z = relu(batch_norm(w x) + r), with two gradients, one of them from a product.
Draft normalised(const Otherwise& is = {}) {
  Draft draft;
  Builder& build = draft.build;
  const TensorId x = build.emit<Conv2d>({draft.input("x", {3, is.features, 4, 4}),
                                         draft.parameter("stem", {is.features, is.features, 1, 1}), kNone},
                                        Conv2dGeometry{});
  const TensorId w = draft.parameter(
      "w", {4, is.features / is.geometry.groups, is.geometry.kernel[0], is.geometry.kernel[1]});
  draft.program.tensors[static_cast<size_t>(w)].frozen = is.frozen;
  const TensorId y = build.emit<Conv2d>({x, w, is.bias ? draft.parameter("b", {4}) : kNone}, is.geometry);
  std::vector<TensorId> inputs{y, draft.parameter("gamma", {4}), draft.parameter("beta", {4}), kNone};
  if (is.residual) inputs[BatchNorm::kResidual] = draft.input("r", build.shape(y));
  if (is.moments_given) inputs.push_back(draft.input("table", {2, 2, 4}));
  const TensorId z = build.emit_all(std::make_shared<BatchNorm>(1e-3, is.relu, is.ceiling), inputs)[0];
  TensorId next = z;
  if (is.projects)
    next = build.emit<Conv2d>({z, draft.parameter("v", {4, 4, 1, 1}), kNone}, Conv2dGeometry{});
  next = build.emit<Binary>({next, z}, Binary::Kind::add);
  if (is.read_twice) next = build.emit<Binary>({next, y}, Binary::Kind::add);
  draft.loss(draft.flatten(next));
  run_passes(draft.program, {autodiff(), fuse_gradient_sum()});
  return draft;
}

/// Whether the pass changes anything.
bool is_changed(const Otherwise& otherwise, const Planner& planner, int64_t least_saved = 0) {
  return normalised(otherwise).is_changed_by({gram_batch_norm(planner, least_saved)});
}

}  // namespace

TEST_CASE("steps of a residual network with and without gram_batch_norm are the same") {
  const Backend reference = make_reference_backend();
  const std::string network = residual_network("");
  StepSpec spec{.passes = {.least_saved = 0, .planner = reference.planner.get()}};
  using Kind = Recompute::Kind;
  std::tie(spec.precision, spec.micro_batches, spec.passes.recompute.kind) =
      GENERATE(std::tuple{Precision::fp32, int64_t{1}, Kind::none},
               std::tuple{Precision::fp32, int64_t{2}, Kind::full},
               std::tuple{Precision::amp_fp16, int64_t{1}, Kind::cheap},
               std::tuple{Precision::amp_fp16, int64_t{2}, Kind::none},
               std::tuple{Precision::amp_bf16, int64_t{1}, Kind::full});
  check_same_as_without_planner(network, spec);
  std::string text;
  trained(network, spec, &text);
  CHECK(count(text, " gram_batch_norm_backward(") == 4 * (spec.micro_batches > 1 ? 2 : 1));
}

TEST_CASE(
    "gram_batch_norm puts a normalisation into its product, and what masks its gradient into the next") {
  const Backend reference = make_reference_backend();
  Draft draft = normalised();
  draft.run({gram_batch_norm(*reference.planner, 0)});
  CHECK(draft.calls("batch_norm").empty());
  CHECK(draft.calls("batch_norm_backward").empty());
  CHECK(draft.calls("gram_batch_norm") ==
        Calls{"gram_batch_norm(reshape, matmul, linear_backward_weights.1, gamma, beta) {eps=0.001 rows=48 "
              "dtype=f32}"});
  CHECK(draft.calls("linear") ==
        Calls{"linear(images_to_tokens, gram_batch_norm, gram_batch_norm.1, images_to_tokens) {relu mask}",
              "linear(images_to_tokens, matmul, reshape, -)"});
  CHECK(draft.calls("linear_backward_data") ==
        Calls{"linear_backward_data(images_to_tokens, reshape, linear.1, images_to_tokens)",
              "linear_backward_data(linear_backward_data, gram_batch_norm, -, linear)"});
  CHECK(draft.calls("linear_backward_weights") ==
        Calls{"linear_backward_weights(images_to_tokens, images_to_tokens, -)",
              "linear_backward_weights(images_to_tokens, linear_backward_data, -)"});
  CHECK(draft.calls("gram_batch_norm_backward") ==
        Calls{"gram_batch_norm_backward(reshape, matmul, linear_backward_weights.1, linear_backward_weights, "
              "linear_backward_weights.1, gamma, gram_batch_norm.2, gram_batch_norm.3) {eps=0.001 rows=48 "
              "dtype=f32}"});
  CHECK(draft.calls("matmul") == Calls{"matmul(reshape, linear_backward_weights)",
                                       "matmul(gram_batch_norm_backward.2, reshape) {transpose_a}",
                                       "matmul(gram_batch_norm_backward.3, reshape)"});
}

TEST_CASE("gram_batch_norm leaves alone what it cannot compute, and what is not worth it") {
  const Backend reference = make_reference_backend();
  const auto is_taken = [&](const Otherwise& otherwise) { return is_changed(otherwise, *reference.planner); };
  CHECK(is_taken({}));
  CHECK(is_taken({.residual = false}));
  CHECK(is_taken({.relu = false}));
  CHECK(is_taken({.relu = false, .residual = false}));
  CHECK(is_taken({.features = 1}));
  CHECK(!is_taken({.features = 3}));  // its Gram matrix takes as long as the product
  CHECK(!is_taken({.geometry = {.kernel = {1, 1}, .stride = {2, 2}}}));
  CHECK(!is_taken({.geometry = {.kernel = {1, 1}, .padding = {1, 1}}}));
  CHECK(!is_taken({.geometry = {.kernel = {3, 3}}}));
  CHECK(!is_taken({.geometry = {.groups = 2}}));
  CHECK(!is_taken({.geometry = {.kernel = {3, 1}, .padding = {1, 0}}}));
  CHECK(!is_taken({.bias = true}));
  CHECK(!is_taken({.moments_given = true}));
  CHECK(!is_taken({.read_twice = true}));
  CHECK(!is_taken({.frozen = true}));
  CHECK(!is_taken({.ceiling = 6}));
  CHECK(!is_taken({.projects = false}));
  // 48 rows; 7 passes over 4 channels less 4 of 2 features; 44 bytes for each of 8 weights; elements of 8
  // bytes.
  CHECK(is_changed({}, *reference.planner, 48 * (28 - 8) * 8 - 8 * 44));
  CHECK(!is_changed({}, *reference.planner, 48 * (28 - 8) * 8 - 8 * 44 + 1));
}

namespace {

/// A step with a product after the last relu, so that it has a mask too, in a low type that is not scaled.
Program guarded(const Planner* planner) {
  Program program = forward_program(
      network_from(residual_network("{conv2d: {out_channels: 4, kernel_size: 1}}, ")), kRowsOfTrained);
  const auto rule = optimizer_from("{name: sgd}");
  run_passes(program,
             rest_of_step(
                 {.passes = {.least_saved = 0, .planner = planner},
                  .precision = Precision::amp_bf16,
                  .update = {.optimizer = rule.get(), .learning_rates = {0.01f}, .guards = {.loss = true}}}));
  return program;
}

}  // namespace

TEST_CASE("a NaN that a relu with a mask hides from the loss is found in the gradients") {
  const Backend reference = make_reference_backend();
  const Program program = guarded(reference.planner.get());
  Session session(program, reference);
  const auto reason_with = [&](const std::map<std::string, std::vector<float>>& values) {
    std::map<std::string, std::vector<float>> all = made_up_inputs(program);
    for (const Tensor& tensor : program.tensors) {
      if (tensor.role == Role::parameter)
        for (const double value : session.persistent(tensor.name))
          all[tensor.name].push_back(static_cast<float>(value));
    }
    const auto before = all;
    for (const auto& [name, given] : values) all[name] = given;
    session.set(all);
    session.run(entry_name::kTrainStep);
    CHECK(std::isfinite(session.output(entry_name::kTrainStep, output_name::kLoss)[0]));
    const double reason = session.output(entry_name::kTrainStep, output_name::kGuardReason)[0];
    session.set(before);
    return static_cast<SkipReason>(reason);
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(reason_with({}) == SkipReason::none);
  CHECK(reason_with({{"images", std::vector<float>(kRowsOfTrained * 3 * 6 * 6, nan)}}) ==
        SkipReason::gradients);
  CHECK(reason_with({{"last2.weight", std::vector<float>(8, nan)}}) == SkipReason::gradients);
  CHECK(reason_with({{"last2.bias", std::vector<float>(8, nan)}}) == SkipReason::gradients);
}

TEST_CASE("a checkpoint fits to programs with and without gram_batch_norm") {
  const Backend reference = make_reference_backend();
  const auto kept = [](const Program& program) {
    std::set<std::string> names;
    for (const Tensor& tensor : program.tensors) {
      if (is_persistent(tensor.role) && tensor.role != Role::constant) names.insert(tensor.name);
    }
    return names;
  };
  CHECK(kept(guarded(reference.planner.get())) == kept(guarded(nullptr)));
}

TEST_CASE("gram_batch_norm leaves a program as it is where the device's planner refuses any of it") {
  const Backend reference = make_reference_backend();
  CHECK(!is_changed({}, RefusingPlanner()));
  struct Refusing : RefusingPlanner {
    std::optional<std::string> why_not(const OpContext& context) const override {
      if (context.op.name() == "linear_backward_data" && context.has_input(LinearBackwardData::kAdded))
        return "no sums here";
      return std::nullopt;
    }
  };
  CHECK(!is_changed({}, Refusing()));
  const auto remarks = [](const Planner& planner) {
    Draft draft = normalised();
    draft.run({gram_batch_norm(planner, 0)});
    return draft.program.remarks;
  };
  CHECK(remarks(*reference.planner).empty());
  CHECK(remarks(RefusingPlanner()).empty());  // it does not have the operation that the pass is for
  CHECK(
      remarks(Refusing()) ==
      std::vector<std::string>{"1 of 1 batch normalisations are not computed within their products, which is "
                               "slower: no sums here"});
}
