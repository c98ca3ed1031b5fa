// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/starter.h"

#include "tests/catch.h"

#include <algorithm>

#include "core/recipe/assemble.h"
#include "core/recipe/recipe.h"

namespace trainer {
namespace {

Starter starter_of(const Shape& shape, int64_t side, int64_t samples, const std::string& val = "") {
  const auto channels = static_cast<size_t>(shape[0]);
  return {.data = {shape[1] < 0 ? "image_folder" : "idx", "a: b/#x \"y\"", val},
          .statistics = {.height = {side / 2, side, side * 2},
                         .width = {side, side + 1, side * 3},
                         .mean = std::vector<double>(channels, 0.5),
                         .deviation = std::vector<double>(channels, 0)},
          .samples = samples,
          .classes = 7,
          .shape = shape};
}

}  // namespace

TEST_CASE("a first recipe reads without a problem for data of any size") {
  const std::vector<Starter> all = {
      starter_of({3, -1, -1}, 20, 2),        starter_of({3, -1, -1}, 100, 300, "v"),
      starter_of({3, -1, -1}, 600, 1000000), starter_of({1, 28, 28}, 28, 60000),
      starter_of({1, 5, 7}, 5, 40),          starter_of({3, 32, 32}, 32, 50000, "v"),
      starter_of({4, 300, 17}, 17, 12345),   starter_of({3, -1, -1}, 1, 17)};
  for (const Starter& starter : all) {
    const std::string text = starter_recipe(starter);
    INFO(text);
    const auto recipe = Recipe::parse(text, "first.yaml", {});
    CHECK(recipe->data.train.written == ("a: b/#x \"y\""));
    CHECK(recipe->data.val_fraction == (starter.data.val.empty() ? 0.2 : 0));
    const int64_t kept = starter.data.val.empty() ? starter.samples * 4 / 5 : starter.samples;
    CHECK(recipe->training.global_batch_size <= std::max<int64_t>(1, kept));
  }
}

TEST_CASE("a first recipe for masks has a U-Net for images of any size and shape") {
  for (const auto& [height, width] : {std::pair{120, 160}, {5, 7}, {3000, 40}, {31, 16}, {64, 64}, {1, 1}}) {
    Starter starter = starter_of({3, -1, -1}, 60, 40);
    starter.data.masks = "m: #1";
    starter.data.val = "v";
    starter.data.val_masks = "w";
    starter.statistics.height = {height, height, height};
    starter.statistics.width = {width, width, width};
    starter.classes = 2;
    starter.mask_values = {0, 255};
    const std::string text = starter_recipe(starter);
    INFO(text);
    const auto recipe = Recipe::parse(text, "first.yaml", {});
    const Shape input = recipe->model.input, output = RunSpec(recipe).output();
    CHECK(output == Shape{output[0], 2, input[1], input[2]});
    CHECK(std::max(input[1], input[2]) <= 128);
    CHECK((input[1] > input[2]) == (height > width));
    CHECK(recipe->data.chosen_format().reads_masks());
    CHECK_NOTHROW(forward_program(recipe));
  }
}

}  // namespace trainer
