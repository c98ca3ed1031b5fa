// SPDX-License-Identifier: Apache-2.0
#include "tests/app/images.h"

namespace trainer {
namespace {

// PNGs of a single grey pixel.
constexpr unsigned char kDark[] = {137, 80,  78,  71, 13, 10, 26, 10,  0,   0,  0,  13, 73,  72,  68,  82, 0,
                                   0,   0,   1,   0,  0,  0,  1,  8,   0,   0,  0,  0,  58,  126, 155, 85, 0,
                                   0,   0,   10,  73, 68, 65, 84, 120, 156, 99, 16, 1,  0,   0,   22,  0,  21,
                                   110, 110, 120, 46, 0,  0,  0,  0,   73,  69, 78, 68, 174, 66,  96,  130};
constexpr unsigned char kBright[] = {
    137, 80, 78,  71, 13,  10, 26,  10,  0,   0,  0, 13, 73, 72, 68, 82, 0,  0,   0,   1,   0,  0,   0,
    1,   8,  0,   0,  0,   0,  58,  126, 155, 85, 0, 0,  0,  10, 73, 68, 65, 84,  120, 156, 99, 120, 6,
    0,   0,  232, 0,  231, 39, 219, 135, 254, 0,  0, 0,  0,  73, 69, 78, 68, 174, 66,  96,  130};

}  // namespace

const char* const kImageRecipe = R"(version: 1
run: {name: images, seed: 1, output_dir: run}
model: {input: [3, 4, 4], layers: [flatten, linear: 2]}
data:
  format: image_folder
  train: train
  val: val
  augment: [random_resized_crop: 4, horizontal_flip]
  eval_transform: [resize: 6, center_crop: 4]
training: {max_duration: 4ep, global_batch_size: 10}
optimizer: {name: sgd, lr: 0.5}
)";

std::string image(bool is_dark) {
  return {reinterpret_cast<const char*>(is_dark ? kDark : kBright), sizeof kDark};
}

void fill_with_images(const Workspace& workspace, const std::string& folder, int count) {
  for (const char* name : {"bright", "dark"}) {
    std::filesystem::create_directories(workspace.path() / folder / name);
    for (int i = 0; i < count; ++i) {
      workspace.write(folder + "/" + name + "/" + std::to_string(100 + i) + ".png",
                      image(name == std::string("dark")));
    }
  }
}

}  // namespace trainer
