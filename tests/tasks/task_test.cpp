// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/task.h"

#include <cmath>
#include "tests/catch.h"

#include "core/tasks/classification.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

TaskContext setting_of(const Shape& input, const Shape& output) {
  return {.input = input,
          .output = output,
          .format = "idx",
          .gives_label_maps = true,
          .formats_of_label_maps = {"synthetic"},
          .gives_label_sets = true,
          .mixes = false,
          .origin_of = [](const std::string& key) {
            return Origin{{}, key};
          }};
}

/// The inputs that a task declares, and their shapes.
std::vector<std::pair<std::string, Shape>> inputs_of(const TaskContext& context, bool training,
                                                     TargetKind kind = TargetKind::label) {
  Program program;
  task_for(context.output, kind).declare_inputs(program, context, training);
  std::vector<std::pair<std::string, Shape>> inputs;
  for (const Tensor& tensor : program.tensors) inputs.emplace_back(tensor.name, tensor.spec.shape);
  return inputs;
}

using Inputs = std::vector<std::pair<std::string, Shape>>;

TEST_CASE("the network's output and the loss say which task it is, and exactly one applies") {
  CHECK(task_for({8, 10}, TargetKind::label_set).name() == "multi_label");
  CHECK(task_for({8, 1, 28, 28}, TargetKind::numbers).name() == "reconstruction");
  CHECK(task_for({8, 10}).name() == "classification");
  CHECK(task_for({8, 4, 6, 6}).name() == "pixel_classification");
  CHECK(task_for({8, 10}).classes({8, 10}) == 10);
  CHECK(task_for({8, 4, 6, 6}).classes({8, 4, 6, 6}) == 4);
  for (size_t rank = 1; rank <= 6; ++rank) {
    for (const TargetKind kind : {TargetKind::label, TargetKind::label_set, TargetKind::numbers}) {
      for (const InputKind input :
           {InputKind::pixels, InputKind::tokens, InputKind::features, InputKind::series}) {
        int count = 0;
        for (const auto& task : tasks()) count += task->applies_to(Shape(rank, 2), kind, input) ? 1 : 0;
        CHECK(count == 1);
      }
    }
  }
}

TEST_CASE(
    "a task declares what its loss reads: labels of a sample or of its pixels, weights, a second label") {
  TaskContext context = setting_of({1, 6, 6}, {8, 10});
  CHECK(inputs_of(context, true) == Inputs{{"labels", {8}}, {"weights", {8}}});
  context.mixes = true;
  CHECK(inputs_of(context, true) ==
        Inputs{{"labels", {8}}, {"weights", {8}}, {"other_labels", {8}}, {"mix_weights", {8}}});
  CHECK(inputs_of(context, false) == Inputs{{"labels", {8}}, {"weights", {8}}});
  CHECK(inputs_of(setting_of({3, 6, 5}, {8, 4, 6, 5}), true) ==
        Inputs{{"labels", {8, 6, 5}}, {"weights", {8}}});
}

TEST_CASE("sets of labels are targets of the output's shape, also where samples are mixed") {
  TaskContext context = setting_of({1, 6, 6}, {8, 10});
  const Inputs expected{{"targets", {8, 10}}, {"weights", {8}}};
  CHECK(inputs_of(context, true, TargetKind::label_set) == expected);
  context.mixes = true;
  CHECK(inputs_of(context, true, TargetKind::label_set) == expected);
  TaskContext pixels = context, single = context;
  pixels.output = {8, 4, 6, 6};
  single.gives_label_sets = false;
  CHECK_THROWS_WITH(inputs_of(pixels, true, TargetKind::label_set),
                    ContainsSubstring("model: binary_cross_entropy needs one output for each class"));
  CHECK_THROWS_WITH(inputs_of(single, true, TargetKind::label_set),
                    ContainsSubstring("data.format: idx has one label for each sample, and loss.name: "
                                      "binary_cross_entropy needs a set of labels; use image_folder with "
                                      "data.labels, a CSV file with a column for each class"));
}

TEST_CASE("a reconstruction reads no labels, and is compared with the images themselves") {
  const TaskContext good = setting_of({1, 6, 6}, {8, 1, 6, 6});
  const Task& task = task_for(good.output, TargetKind::numbers);
  Program program;
  const TensorId images = program.input("images", {{8, 1, 6, 6}, DType::f32});
  const Targets targets = task.declare_inputs(program, good, true);
  CHECK(targets.values == images);
  CHECK(targets.labels == kNone);
  CHECK(task.classes(good.output) == 0);
  TaskContext tokens = good, smaller = good, mixing = good;
  tokens.input_kind = InputKind::tokens;
  smaller.output = {8, 1, 5, 5};
  mixing.mixes = true;
  const auto inputs = [](const TaskContext& context) {
    return inputs_of(context, true, TargetKind::numbers);
  };
  CHECK_THROWS_WITH(inputs(tokens),
                    ContainsSubstring("loss.name: mse compares the network's output with the images"));
  CHECK_THROWS_WITH(inputs(smaller),
                    ContainsSubstring("model: with loss.name: mse the network's output must have "
                                      "the shape of its input, 1x6x6, got 1x5x5"));
  CHECK_THROWS_WITH(inputs(mixing), ContainsSubstring("data.mix: mixes labels"));
  task.check_prediction(good);
}

TEST_CASE("a class for each pixel needs label maps of the input's size, and no mixing") {
  const TaskContext good = setting_of({3, 6, 5}, {8, 4, 6, 5});
  TaskContext without_maps = good, smaller = good, flat = good, mixing = good;
  without_maps.gives_label_maps = false;
  smaller.output = {8, 4, 3, 5};
  flat.input = {90};
  mixing.mixes = true;
  CHECK_THROWS_WITH(inputs_of(without_maps, true), ContainsSubstring("data.format: idx has no label maps"));
  CHECK_THROWS_WITH(
      inputs_of(smaller, true),
      ContainsSubstring(
          "model: the network's output 8x4x3x5 must have the height and width of its input, 6x5,"));
  CHECK_THROWS_WITH(inputs_of(flat, true), ContainsSubstring("the height and width of its input, 90,"));
  CHECK_THROWS_WITH(inputs_of(mixing, true), ContainsSubstring("data.mix: needs one label for each image"));
}

TEST_CASE("classes for each position need a network that reads tokens, and as many positions as it reads") {
  TaskContext good = setting_of({6}, {8, 6, 50});
  good.input_kind = InputKind::tokens;
  TaskContext pixels = good, shorter = good;
  pixels.input_kind = InputKind::pixels;
  shorter.output = {8, 5, 50};
  const auto inputs = inputs_of(good, true);
  CHECK(inputs == inputs_of(good, false));
  CHECK_THROWS_WITH(inputs_of(pixels, true), ContainsSubstring("needs model.input_kind: tokens"));
  CHECK_THROWS_WITH(inputs_of(shorter, true),
                    ContainsSubstring("must have as many positions as its input, 6"));
  CHECK(task_for(good.output).name() == "language_modeling");
  CHECK(task_for(good.output).classes(good.output) == 50);
}

TEST_CASE("perplexity is the exponential of the mean loss") {
  const std::vector<Metric> all = all_metrics();
  const Metric* perplexity = find_metric(all, "perplexity");
  REQUIRE(perplexity != nullptr);
  CHECK(perplexity->value(std::vector<double>{4 * std::log(7.0)}, 4) == Approx(7));
  CHECK(direction_of("perplexity") == Direction::smaller);
}

TEST_CASE("bits per byte are the whole loss in bits over the bytes that the tokens stand for") {
  const std::vector<Metric> all = all_metrics();
  const Metric* metric = find_metric(all, "bits_per_byte");
  REQUIRE(metric != nullptr);
  CHECK(metric->sums == std::vector<std::string>{"loss", "tokens", "bytes"});
  // 4 windows of 8 tokens, each of ln 16 nats, 4 bits, represent 64 bytes.
  CHECK(metric->value(std::vector<double>{4 * std::log(16.0), 32, 64}, 4) == Approx(2));
}

TEST_CASE("a prediction is a class, its name where it has one, and probabilities of the first or of all") {
  const TaskContext context = setting_of({1, 6, 6}, {8, 3});
  const Task& task = task_for(context.output);
  task.check_prediction(context);
  const std::vector<std::string> names = {"ant", "bee"}, none;
  const std::vector<float> output = {0, 2, 1}, last = {0, 1, 2};
  const auto fields = task.predict(output, {.top = 2, .class_names = names});
  REQUIRE(fields.size() == 3);
  CHECK(fields[0].name == "class");
  CHECK(std::get<int64_t>(fields[0].value) == 1);
  CHECK(fields[1].name == "name");
  CHECK(std::get<std::string>(fields[1].value) == "bee");
  CHECK(fields[2].name == "probabilities");
  const auto pairs = std::get<PredictedField::Pairs>(fields[2].value);
  REQUIRE(pairs.size() == 2);
  CHECK(pairs[0].first == 1);
  CHECK(pairs[1].first == 2);
  CHECK(pairs[1].second == Approx(0.2447284711));
  const auto all = task.predict(output, {.all = true, .class_names = none});
  REQUIRE(all.size() == 2);
  CHECK(std::get<std::vector<double>>(all[1].value).size() == 3);
  CHECK(task.predict(last, {.class_names = names}).size() == 2);  // the third class has no name
}

TEST_CASE("classes for each token or of another form are not predicted") {
  for (const Shape& output : {Shape{8, 4, 6}, Shape{8}}) {
    const TaskContext context = setting_of({3, 6, 5}, output);
    CHECK_THROWS_WITH(task_for(output).check_prediction(context),
                      ContainsSubstring("the network's output " + to_string(output) +
                                        (output.size() == 3 ? " has a class for each token; trainer generate"
                                                            : " has another form")));
  }
}

TEST_CASE("of a class for each pixel, predictions are the classes' shares of the pixels") {
  const Shape output{8, 3, 2, 2}, sample{3, 2, 2};
  const Task& task = task_for(output);
  CHECK_NOTHROW(task.check_prediction(setting_of({3, 2, 2}, output)));
  // Classes 2, 2, 0 (the lower of two equal ones) and 2.
  const std::vector<float> logits = {0, 1, 5, -3, 0, 0, 5, -2, 1, 2, 4, -1};
  const std::vector<std::string> names = {"ground", "car", "road"};
  const auto fields = task.predict(logits, {.class_names = names, .output = sample});
  REQUIRE(fields.size() == 3);
  CHECK(fields[0].name == "classes");
  CHECK(std::get<std::vector<int64_t>>(fields[0].value) == std::vector<int64_t>{2, 0});
  CHECK(std::get<std::vector<std::string>>(fields[1].value) == std::vector<std::string>{"road", "ground"});
  CHECK(fields[2].name == "fractions");
  CHECK(std::get<std::vector<double>>(fields[2].value) == std::vector<double>{0.75, 0.25});
  const auto top = task.predict(logits, {.top = 1, .class_names = {}, .output = sample});
  CHECK(std::get<std::vector<int64_t>>(top[0].value) == std::vector<int64_t>{2});
  const auto all = task.predict(logits, {.all = true, .class_names = names, .output = sample});
  CHECK(std::get<std::vector<double>>(all[2].value) == std::vector<double>{0.75, 0.25, 0});
  CHECK_FALSE(task.judges());
  CHECK(task.drawing() == Drawing::masks);
}

TEST_CASE("of a reconstruction the mean squared error is predicted, and drawn in bytes") {
  const Task& task = task_for({8, 3, 1, 2}, TargetKind::numbers);
  const std::vector<float> output = {0, 1, 2, 3, 4, 1e9f}, input = {0, 1, 2, 3, 4, 1e9f - 128};
  const std::vector<std::string> none;
  const auto fields = task.predict(output, {.class_names = none, .output = {3, 1, 2}, .input = input});
  REQUIRE(fields.size() == 1);
  CHECK(fields[0].name == "mse");
  CHECK(std::get<double>(fields[0].value) == Approx(128.0 * 128 / 6));
  CHECK(task.drawing() == Drawing::image);
  const PredictedImage image =
      task.draw(output, {3, 1, 2}, {.scale = {0.5f, 1, 0.01f}, .offset = {0, -7, 5}});
  CHECK(image.shape == Shape{3, 1, 2});
  CHECK(image.pixels == std::vector<uint8_t>{0, 2, 9, 10, 0, 255});
}

TEST_CASE("averages with the mirrored sample are those of the probabilities, however far the logits are") {
  const std::vector<std::string> none;
  const Task& classes = task_for({8, 3});
  const std::vector<float> near = {1, 2, 0}, far = {-3000, 500, 1500};
  std::vector<float> output = near;
  classes.average(output, far, {3});
  const std::vector<double> a = probabilities(near), b = probabilities(far), mean = probabilities(output);
  for (size_t c = 0; c < 3; ++c) {
    CHECK(std::isfinite(output[c]));
    CHECK(mean[c] == Approx((a[c] + b[c]) / 2).epsilon(1e-6));
  }
  const Task& sets = task_for({8, 3}, TargetKind::label_set);
  output = {1, -2000, 2000};
  sets.average(output, std::vector<float>{-1, -2000, 2000}, {3});
  CHECK(output[0] == Approx(0).margin(1e-6));
  CHECK((std::isfinite(output[1]) && output[1] < -80));
  CHECK((std::isfinite(output[2]) && output[2] > 80));
  // The mirrored output is mirrored back.
  const Task& pixels = task_for({8, 2, 2, 3});
  const std::vector<float> there = {1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0},
                           back = {3, 2, 1, 6, 5, 4, 0, 0, 0, 0, 0, 0};
  output = there;
  pixels.average(output, back, {2, 2, 3});
  for (size_t i = 0; i < 6; ++i) CHECK(output[i] - output[i + 6] == Approx(there[i]).epsilon(1e-5));
  CHECK_FALSE(task_for({8, 3, 1, 2}, TargetKind::numbers).averages_mirrored());
}

TEST_CASE("a prediction is judged by its class or, of sets, by the class that is most certainly wrong") {
  const Task& classes = task_for({8, 3});
  const std::vector<float> output = {0, 3, 0};
  const std::vector<int64_t> right = {1}, wrong = {2}, none;
  CHECK(classes.judge(output, right).is_right);
  CHECK_FALSE(classes.judge(output, wrong).is_right);
  CHECK(classes.judge(output, wrong).certainty == Approx(probabilities(output)[1]));
  const Task& sets = task_for({8, 3}, TargetKind::label_set);
  const std::vector<float> logits = {2, -3, -1};
  CHECK(sets.judge(logits, std::vector<int64_t>{0}).is_right);
  CHECK_FALSE(sets.judge(logits, none).is_right);
  CHECK(sets.judge(logits, none).certainty == Approx(1 / (1 + std::exp(-2.0))));
  CHECK(sets.judge(logits, std::vector<int64_t>{1, 2}).certainty == Approx(1 / (1 + std::exp(-3.0))));
}

}  // namespace
}  // namespace trainer
