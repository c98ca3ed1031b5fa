// SPDX-License-Identifier: Apache-2.0
// data.cache: device, as far as planning goes, which needs no GPU.
#include "tests/catch.h"

#include "core/engine/backend_library.h"
#include "core/recipe/memory_fit.h"
#include "tests/cudnn/devices.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

class Planning {
 public:
  Job job(const std::string& recipe, std::vector<std::string> overrides) {
    overrides.emplace_back("data.cache=device");
    return make_job(Recipe::load(std::string(TRAINER_SOURCE_DIR) + "/configs/" + recipe, overrides),
                    *gpu_.planner);
  }
  std::string refusal(const std::string& recipe, const std::vector<std::string>& overrides) {
    try {
      job(recipe, overrides);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::recipe);
      return error.what();
    }
    return "none";
  }
  const Planner& gpu() { return *gpu_.planner; }

 private:
  DeviceDescription device_ = shipped_device("h200");
  Backend gpu_ = load_backend("cuda", BackendRequest{.described = &device_});
};

const std::vector<std::string> kSynthetic = {"data.format=synthetic", "data.synthetic.train_samples=1000",
                                             "data.synthetic.val_samples=500"};

std::vector<std::string> synthetic_with(const std::string& override) {
  std::vector<std::string> all = kSynthetic;
  all.push_back(override);
  return all;
}

int64_t bytes_of(const std::vector<std::pair<std::string, int64_t>>& kinds, const std::string& kind) {
  for (const auto& [name, bytes] : kinds) {
    if (name == kind) return bytes;
  }
  return 0;
}

}  // namespace

TEST_CASE("a small set of samples lies on the device, and batches are numbers of samples") {
  Planning planning;
  const Job job = planning.job("resnet18_cifar10.yaml", kSynthetic);
  CHECK(job.program.find(input_name::kSampleNumbers) != kNone);
  CHECK(job.program.find(input_name::kImages) == kNone);
  CHECK(bytes_of(job.memory.kinds, "samples") == Approx(1500 * (3072 + 4)).margin(256));
  // Of each row its number, epoch, weight and place: 16 bytes, in three slots of two feeds.
  CHECK(bytes_of(job.memory.kinds, "batches") == 2 * 3 * 128 * 16);
  CHECK(bytes_of(job.memory.host, "batches") < 2 * 8 * 6 * 128 * 4);
  std::string reading;
  for (const PlannedNode& planned : job.plan.entries[0].nodes) {
    if (planned.node.op->name() == "read_samples") reading = attributes_text(*planned.node.op);
  }
  CHECK(reading == "window=32x32 padding=4 mirror=0.5");
}

TEST_CASE("what a device cannot do with samples is refused at its place") {
  Planning planning;
  CHECK_THAT(planning.refusal("resnet18_cifar10.yaml", synthetic_with("data.mix.cutmix=1")),
             ContainsSubstring("data.mix: mixes samples on the host; write data.cache: none"));
  CHECK_THAT(planning.refusal("resnet18_cifar10.yaml", synthetic_with("data.augment=[{cutout: {size: 8}}]")),
             ContainsSubstring("data.augment[0].cutout: runs on the host only"));
  CHECK_THAT(
      planning.refusal("resnet18_cifar10.yaml",
                       synthetic_with("data.augment=[horizontal_flip, horizontal_flip, horizontal_flip, "
                                      "horizontal_flip, horizontal_flip]")),
      ContainsSubstring("a GPU takes at most 4 random steps"));
  CHECK_THAT(planning.refusal("unet_synthetic.yaml", {}), ContainsSubstring("a label for every pixel"));
  CHECK_THAT(planning.refusal("resnet18_cifar10.yaml", {"data.train=/nowhere", "data.val=/nowhere"}),
             ContainsSubstring("there is no file /nowhere"));
}

TEST_CASE("samples that do not fit are told of, with the way out") {
  Planning planning;
  std::vector<std::string> overrides = synthetic_with("device.memory=1GiB");
  overrides.emplace_back("data.synthetic.train_samples=1000000");
  const Job job = planning.job("resnet18_cifar10.yaml", overrides);
  try {
    require_memory(planning.gpu(), job);
    FAIL("it was taken to fit");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::out_of_memory);
    CHECK_THAT(error.what(),
               ContainsSubstring("try data.cache=none, which keeps 2.87 GiB of samples on the host"));
  }
}

}  // namespace trainer
